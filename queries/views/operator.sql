-- /// view
-- sentence = "Host and device time per operator name: self times add up, totals contain the operators inside and do not."
-- needs = ["host_event", "_op_scope", "_op_device_time"]
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
with op as (
  select
    rank, pid, tid, event_id, name, ts_ns, dur_ns, ts_ns + dur_ns as end_ns,
    coalesce(max(ts_ns + dur_ns) over (
      partition by rank, pid, tid, name order by ts_ns, depth, event_id rows between unbounded preceding and 1 preceding
    ) <= ts_ns, true) as outermost
  from host_event
  where kind = 'op' and dur_ns is not null
),
inner_op as (
  select _op_scope.rank, _op_scope.outer_op_id as event_id, sum(op.dur_ns)::bigint as dur_ns
  from _op_scope
  join op on op.rank = _op_scope.rank and op.event_id = _op_scope.event_id
  where _op_scope.outer_op_id is not null
  group by all
),
-- Device time launched on a thread up to each operator's start: a total is a difference of two of these.
cumulative as (
  select rank, pid, tid, ts_ns, sum(device_ns) over (partition by rank, pid, tid order by ts_ns)::bigint as so_far_ns
  from (
    select op.rank, op.pid, op.tid, op.ts_ns, sum(_op_device_time.device_ns) as device_ns
    from op
    join _op_device_time on _op_device_time.rank = op.rank and _op_device_time.event_id = op.event_id
    group by all
  )
),
started as (
  select op.*, coalesce(cumulative.so_far_ns, 0) as before_ns
  from op
  asof left join cumulative
    on cumulative.rank = op.rank and cumulative.pid = op.pid and cumulative.tid = op.tid and op.ts_ns > cumulative.ts_ns
),
ended as (
  select started.*, coalesce(cumulative.so_far_ns, 0) - before_ns as within_ns
  from started
  asof left join cumulative
    on cumulative.rank = started.rank and cumulative.pid = started.pid and cumulative.tid = started.tid
    and greatest(started.end_ns, started.ts_ns + 1) > cumulative.ts_ns
)
select
  ended.rank, ended.name, count(*) as count,
  sum(greatest(ended.dur_ns - coalesce(inner_op.dur_ns, 0), 0))::bigint as self_host_ns,
  coalesce(sum(ended.dur_ns) filter (where ended.outermost), 0)::bigint as total_host_ns,
  coalesce(sum(own.device_ns), 0)::bigint as self_device_ns,
  coalesce(sum(ended.within_ns) filter (where ended.outermost), 0)::bigint as total_device_ns,
  coalesce(sum(own.device_operations), 0)::bigint as device_operations
from ended
left join inner_op on inner_op.rank = ended.rank and inner_op.event_id = ended.event_id
left join _op_device_time as own on own.rank = ended.rank and own.event_id = ended.event_id
group by ended.rank, ended.name
order by ended.rank, self_host_ns desc, ended.name
