-- /// view
-- sentence = "Kernel time by the operator that launched the kernels and the shapes of its inputs."
-- needs = ["device_event", "host_event"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- class = { type = "varchar", doc = "Class of the kernels." }
-- op = { type = "varchar", doc = "Innermost operator around the launch; NULL when the capture does not tell." }
-- shapes = { type = "varchar", doc = "Shapes of its inputs as recorded; NULL without record_shapes." }
-- types = { type = "varchar", doc = "Types of its inputs as recorded; NULL without record_shapes." }
-- count = { type = "bigint", doc = "Number of kernels." }
-- total_ns = { type = "bigint", unit = "ns", doc = "Sum of durations; may exceed wall time when streams overlap." }
-- total_share = { type = "double", unit = "share", doc = "total_ns of the rank's summed kernel time." }
-- ///
with launched as (
  select device_event.rank, device_event.class, call.parent_id, count(*) as kernels, sum(device_event.busy_dur_ns)::bigint as spent_ns
  from device_event
  left join host_event as call on call.rank = device_event.rank and call.event_id = device_event.launch_id
  where device_event.kind in ('kernel', 'graph')
  group by device_event.rank, device_event.class, call.parent_id
),
named as (
  select
    launched.*, operator.name as op, operator.args ->> '$."Input Dims"' as shapes,
    coalesce(operator.args ->> '$."Input type"', operator.args ->> '$."Input Type"') as types
  from launched
  left join host_event as operator
    on operator.rank = launched.rank and operator.event_id = launched.parent_id and operator.kind = 'op'
)
select
  rank, class, op, shapes, types,
  sum(kernels)::bigint as count,
  sum(spent_ns)::bigint as total_ns,
  sum(spent_ns) / nullif(sum(sum(spent_ns)) over (partition by rank), 0) as total_share
from named
group by rank, class, op, shapes, types
order by rank, total_ns desc, op
