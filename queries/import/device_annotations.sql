-- Host ranges that the profiler projects on device streams: labels, never work.
select
  $rank as rank,
  $first_id + row_number() over (order by event.pid, event.tid, ts_ns, dur_ns desc, event.name, external_id) - 1 as event_id,
  coalesce(try_cast(json_extract_string(args, '$.device') as bigint), try_cast(event.pid as bigint), 0) as device,
  coalesce(try_cast(json_extract_string(args, '$.stream') as bigint), try_cast(regexp_extract(event.tid, '(\d+)', 1) as bigint), 0) as stream,
  ts_ns - $origin as ts_ns,
  dur_ns,
  coalesce(event.name, '') as name,
  case when external_id > 0 then external_id end as external_id,
  args
from read_parquet($parts) event
join route
  on event.ph is not distinct from route.ph
  and event.cat is not distinct from route.cat
  and event.pid is not distinct from route.pid
  and coalesce(event.name = '[memory]', false) = route.is_memory
where route.target = 'device_annotation' and ts_ns is not null and dur_ns >= 0
order by event_id
