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
ordered as (
  -- Device time launched on a thread by the operators in front of each one; an operator comes behind the one it lies in.
  select *, coalesce(sum(device_ns) over (
    partition by rank, pid, tid order by ts_ns, depth, event_id rows between unbounded preceding and 1 preceding
  ), 0)::bigint as before_ns
  from op
),
outermost as (
  -- A call is inside another of its name when an earlier one has not ended.
  select *
  from ordered
  qualify coalesce(max(end_ns) over (
    partition by rank, pid, tid, name order by ts_ns, depth, event_id rows between unbounded preceding and 1 preceding
  ) <= ts_ns, true)
),
launched as (
  select rank, pid, tid, ts_ns, max(before_ns + device_ns) as so_far_ns
  from ordered
  group by rank, pid, tid, ts_ns
),
total as (
  -- What was launched before its end and not before itself; nothing lies in a call of no length.
  select
    outermost.rank, outermost.name, sum(outermost.dur_ns)::bigint as host_ns,
    sum(case when outermost.dur_ns = 0 then outermost.device_ns else launched.so_far_ns - outermost.before_ns end)::bigint as device_ns
  from outermost
  asof left join launched
    on launched.rank = outermost.rank and launched.pid = outermost.pid and launched.tid = outermost.tid
    and outermost.end_ns > launched.ts_ns
  group by outermost.rank, outermost.name
)
select
  rank, name, flat.count, flat.self_host_ns, total.host_ns as total_host_ns, flat.self_device_ns, total.device_ns as total_device_ns,
  flat.device_operations
from flat
join total using (rank, name)
order by rank, self_host_ns desc, name
