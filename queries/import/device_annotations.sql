-- Host ranges that the profiler projects on device streams: labels, never work.
copy (
  select
    $rank::bigint as rank,
    result.event_id,
    coalesce(event.device, 0) as device,
    coalesce(event.stream, 0) as stream,
    event.ts_ns - $origin as ts_ns,
    event.dur_ns,
    coalesce(event.name, '') as name,
    case when event.external_id > 0 then event.external_id end as external_id,
    event.args::varchar as args
  from read_parquet($parts) event
  join result on event.row = result.row
  join route
    on event.ph is not distinct from route.ph
    and event.cat is not distinct from route.cat
    and event.pid is not distinct from route.pid
    and coalesce(event.name = '[memory]', false) = route.is_memory
  where route.code = 4
) to $file (format parquet, parquet_version v2, compression zstd)
