-- Every device and stream that has operations, waits or projected ranges.
select distinct route.code, coalesce(event.device, 0) as device, coalesce(event.stream, 0) as stream
from read_parquet($parts) event
join route
  on event.ph is not distinct from route.ph
  and event.cat is not distinct from route.cat
  and event.pid is not distinct from route.pid
  and coalesce(event.name = '[memory]', false) = route.is_memory
where route.code in (2, 3, 4)
order by all
