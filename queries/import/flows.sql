-- Ends of arrows; identities may be written as hexadecimal text.
copy (
  select
    $rank::bigint as rank,
    coalesce(event.cat, '') as kind,
    event.ph as phase,
    try_cast(event.id as bigint) as flow_id,
    thread_map.pid_number as pid,
    coalesce(try_cast(regexp_extract(event.tid, '^stream (\d+)', 1) as bigint), thread_map.tid_number) as tid,
    event.ts_ns - $origin as ts_ns
  from read_parquet($parts) event
  join thread_map on event.pid is not distinct from thread_map.pid and event.tid is not distinct from thread_map.tid
  where event.ph in ('s', 't', 'f') and event.ts_ns is not null and try_cast(event.id as bigint) is not null
) to $file (format parquet, parquet_version v2, compression zstd)
