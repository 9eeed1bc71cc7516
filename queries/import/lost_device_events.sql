-- Device records without a usable time: they cannot enter a sum, so they are counted here and left out.
select
  case
    when event.ts_ns is null then 'without start'
    when event.dur_ns is null then 'without duration'
    when event.dur_ns < 0 then 'with negative duration'
    else 'with start 0 and duration 0'
  end as reason,
  count(*) as events,
  min(event.name) as example
from read_parquet($parts) event
join route
  on event.ph is not distinct from route.ph
  and event.cat is not distinct from route.cat
  and event.pid is not distinct from route.pid
  and coalesce(event.name = '[memory]', false) = route.is_memory
where route.target in ('device_event', 'stream_wait', 'device_annotation')
  and (
    event.ts_ns is null or event.dur_ns is null or event.dur_ns < 0
    or (route.target = 'device_event' and event.ts_ns <= 0 and event.dur_ns = 0)
  )
group by reason
order by reason
