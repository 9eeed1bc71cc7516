-- /// view
-- sentence = "Host and device time per operator name: self times add up, totals contain the operators inside and do not."
-- needs = ["host_event", "device_event", "_op_scope"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- name = { type = "varchar", doc = "Operator." }
-- count = { type = "bigint", doc = "Number of calls." }
-- self_host_ns = { type = "bigint", unit = "ns", doc = "Host time outside the operators within it, runtime calls included." }
-- total_host_ns = { type = "bigint", unit = "ns", doc = "Host time with the operators within it; a call inside a call of the same name is counted once." }
-- self_device_ns = { type = "bigint", unit = "ns", doc = "Sum of the device operations that it launched itself." }
-- total_device_ns = { type = "bigint", unit = "ns", doc = "Sum of the device operations launched during it on its thread; a call inside a call of the same name is counted once." }
-- device_operations = { type = "bigint", doc = "Number of device operations that it launched itself." }
-- ///
with scope as materialized (
  from _op_scope
),
named as (
  -- Where the launch is not in the capture, the operator's id on the device operation tells.
  select rank, external_id, max(event_id) as event_id
  from host_event
  where kind = 'op' and external_id in (select external_id from device_event where launch_id is null)
  group by rank, external_id
),
own as (
  select
    device_event.rank, coalesce(scope.outer_op_id, named.event_id) as event_id,
    count(*) as device_operations, sum(device_event.busy_dur_ns)::bigint as device_ns
  from device_event
  left join scope on scope.rank = device_event.rank and scope.event_id = device_event.launch_id
  left join named on named.rank = device_event.rank and named.external_id = device_event.external_id and device_event.launch_id is null
  group by all
),
inner_op as (
  select scope.rank, scope.outer_op_id as event_id, sum(host_event.dur_ns)::bigint as dur_ns
  from scope
  join host_event on host_event.rank = scope.rank and host_event.event_id = scope.event_id
  where scope.outer_op_id is not null and host_event.kind = 'op'
  group by all
),
op as (
  select
    host_event.rank, host_event.pid, host_event.tid, host_event.name, host_event.ts_ns, host_event.depth, host_event.event_id,
    host_event.ts_ns + host_event.dur_ns as end_ns, host_event.dur_ns,
    coalesce(inner_op.dur_ns, 0) as inner_ns,
    coalesce(own.device_ns, 0) as device_ns,
    coalesce(own.device_operations, 0) as device_operations
  from host_event
  left join inner_op on inner_op.rank = host_event.rank and inner_op.event_id = host_event.event_id
  left join own on own.rank = host_event.rank and own.event_id = host_event.event_id
  where host_event.kind = 'op' and host_event.dur_ns is not null
),
flat as (
  select
    rank, name,
    count(*) as count,
    sum(greatest(dur_ns - inner_ns, 0))::bigint as self_host_ns,
    sum(device_ns)::bigint as self_device_ns,
    sum(device_operations)::bigint as device_operations
  from op
  group by rank, name
),
outermost as (
  -- A call is inside another of its name when an earlier one has not ended.
  select *
  from op
  qualify coalesce(max(end_ns) over (
    partition by rank, pid, tid, name order by ts_ns, depth, event_id rows between unbounded preceding and 1 preceding
  ) <= ts_ns, true)
),
-- Device time launched on a thread by operators that start before each time: a total is a difference of two of these.
launched as (
  select rank, pid, tid, ts_ns, sum(sum(device_ns)) over (partition by rank, pid, tid order by ts_ns)::bigint as so_far_ns
  from op
  where device_ns > 0
  group by rank, pid, tid, ts_ns
),
edge as (
  select rank, name, pid, tid, ts_ns as at_ns, -1 as sign, 0 as dur_ns from outermost
  union all
  select rank, name, pid, tid, greatest(end_ns, ts_ns + 1) as at_ns, 1 as sign, dur_ns from outermost
),
total as (
  select edge.rank, edge.name, sum(edge.dur_ns)::bigint as host_ns, sum(edge.sign * coalesce(launched.so_far_ns, 0))::bigint as device_ns
  from edge
  asof left join launched
    on launched.rank = edge.rank and launched.pid = edge.pid and launched.tid = edge.tid and edge.at_ns > launched.ts_ns
  group by edge.rank, edge.name
)
select
  rank, name, flat.count, flat.self_host_ns, total.host_ns as total_host_ns, flat.self_device_ns, total.device_ns as total_device_ns,
  flat.device_operations
from flat
join total using (rank, name)
order by rank, self_host_ns desc, name
