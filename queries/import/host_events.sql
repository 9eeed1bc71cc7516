-- Host events in the order in which they nest: by thread, then start, then the longer one first.
-- Ties fall to the kind (a range holds a frame, a frame holds an operator, an operator its calls), then to the recorder's own order.
select
  thread_map.thread_number,
  route.kind_order,
  thread_map.pid_number as pid,
  thread_map.tid_number as tid,
  event.ts_ns - $origin as ts_ns,
  case when event.dur_ns >= 0 then event.dur_ns end as dur_ns,
  coalesce(name_class.kind, route.kind) as kind,
  name_class.class,
  coalesce(name_class.clean_name, event.name, '') as name,
  case when event.correlation > 0 then event.correlation end as correlation_id,
  case when event.external_id > 0 then event.external_id end as external_id,
  case when event.sequence_id >= 0 then event.sequence_id end as sequence_id,
  event.forward_tid,
  case
    when contains(event.args, '"/') or contains(event.args, ';/') then
      regexp_replace(
        regexp_replace(event.args, '(["; ])/[^";]*?/(?:site|dist)-packages/', '\1', 'g'),
        '(["; ])(?:/[^"/;]+)+/', '\1', 'g'
      )
    else event.args
  end as args
from read_parquet($parts) event
join route
  on event.ph is not distinct from route.ph
  and event.cat is not distinct from route.cat
  and event.pid is not distinct from route.pid
  and coalesce(event.name = '[memory]', false) = route.is_memory
join thread_map
  on event.pid is not distinct from thread_map.pid
  and event.tid is not distinct from thread_map.tid
left join name_class
  on event.ph is not distinct from name_class.ph
  and event.cat is not distinct from name_class.cat
  and event.name = name_class.name
where route.target = 'host_event' and event.ts_ns is not null
order by
  thread_map.thread_number,
  event.ts_ns,
  greatest(coalesce(event.dur_ns, 0), 0) desc,
  route.kind_order,
  event.event_index,
  event.external_id,
  event.name,
  event.correlation
