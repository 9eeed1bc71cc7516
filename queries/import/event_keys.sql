-- What ordering, nesting and linking need to know of an event, and no more: times in the file's own ns.
select
  event.row,
  route.code,
  coalesce(thread_map.thread_number, 0)::integer as thread,
  coalesce(lane_map.lane, 0)::integer as lane,
  event.ts_ns as ts,
  case when event.dur_ns >= 0 then event.dur_ns else 0 end as dur,
  case
    when name_class.kind = 'annotation' then 0
    else route.kind_order
  end::tinyint as kind_order,
  coalesce(event.event_index, event.external_id, event.correlation, 0) as tie,
  hash(event.name) as name_hash,
  case when event.correlation > 0 then event.correlation else 0 end as correlation,
  coalesce(name_class.class in ('launch', 'graph_launch', 'copy_call', 'set_call'), false) as is_launch,
  route.code = 2 and coalesce(event.graph_node, 0) <> 0 as in_graph
from read_parquet($parts) event
join route
  on event.ph is not distinct from route.ph
  and event.cat is not distinct from route.cat
  and event.pid is not distinct from route.pid
  and coalesce(event.name = '[memory]', false) = route.is_memory
left join thread_map
  on route.code = 1
  and event.pid is not distinct from thread_map.pid
  and event.tid is not distinct from thread_map.tid
left join lane_map
  on route.code = lane_map.code
  and coalesce(event.device, 0) = lane_map.device
  and coalesce(event.stream, 0) = lane_map.stream
left join name_class
  on event.ph is not distinct from name_class.ph
  and event.cat is not distinct from name_class.cat
  and event.name = name_class.name
where event.ts_ns is not null
  and (
    route.code = 1
    or (route.code = 2 and event.dur_ns >= 0 and not (event.ts_ns <= 0 and event.dur_ns = 0))
    or (route.code in (3, 4) and event.dur_ns >= 0)
  )
