-- Samples of counters, one row per series.
copy (
  select
    $rank::bigint as rank,
    coalesce(try_cast(event.pid as bigint), thread_map.pid_number) as pid,
    event.ts_ns - $origin as ts_ns,
    coalesce(event.name, '') as name,
    event.series,
    case when isfinite(event.value) then event.value end as value
  from (
    select
      *,
      unnest(case when json_type(args) = 'OBJECT' and len(json_keys(args)) > 0 then json_keys(args) else [null] end) as series,
      try_cast(json_extract_string(args, '$."' || replace(series, '"', '') || '"') as double) as value
    from read_parquet($parts)
    where ph = 'C' and ts_ns is not null
  ) event
  join thread_map on event.pid is not distinct from thread_map.pid and event.tid is not distinct from thread_map.tid
) to $file (format parquet, parquet_version v2, compression zstd)
