-- Events of the other tables without a usable time or identity, and durations that cannot be.
select
  case
    when event.ts_ns is null then 'without start'
    when event.ph in ('s', 't', 'f') then 'arrow without number'
    when event.dur_ns is null then 'without duration'
    else 'with negative duration'
  end as reason,
  count(*) as events,
  min(event.name) as example
from read_parquet($parts) event
join route
  on event.ph is not distinct from route.ph
  and event.cat is not distinct from route.cat
  and event.pid is not distinct from route.pid
  and coalesce(event.name = '[memory]', false) = route.is_memory
where (route.target in ('host_event', 'flow', 'memory_event', 'counter') and event.ts_ns is null)
  or (route.target = 'flow' and try_cast(event.id as bigint) is null)
  or (route.target = 'host_event' and event.ph = 'X' and (event.dur_ns is null or event.dur_ns < 0))
group by reason
order by reason
