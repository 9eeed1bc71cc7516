-- /// view
-- sentence = "How long each host thread was inside recorded work; ranges and Python frames are labels and count for nothing."
-- needs = ["host_event", "thread"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- pid = { type = "bigint", doc = "Process." }
-- tid = { type = "bigint", doc = "Thread." }
-- name = { type = "varchar", doc = "Name of the thread." }
-- role = { type = "varchar", doc = "main, autograd, loader, pin_memory, comm, other." }
-- span_ns = { type = "bigint", unit = "ns", doc = "From the first start to the last end of what is counted here." }
-- busy_ns = { type = "bigint", unit = "ns", doc = "Time inside an operator, a runtime or a driver call." }
-- op_ns = { type = "bigint", unit = "ns", doc = "Time inside an operator." }
-- call_ns = { type = "bigint", unit = "ns", doc = "Time inside a runtime or driver call, waits included." }
-- os_ns = { type = "bigint", unit = "ns", doc = "Time inside a recorded call of the operating system, waits included." }
-- overhead_ns = { type = "bigint", unit = "ns", doc = "Time that the profiler says it took itself." }
-- ///
with event as (
  select
    rank, pid, tid, ts_ns, ts_ns + dur_ns as end_ns,
    case kind when 'driver' then 'runtime' else kind end as part
  from host_event
  where dur_ns is not null and kind in ('op', 'runtime', 'driver', 'os', 'overhead')
),
edge as (
  select rank, pid, tid, part, ts_ns as at_ns, 1 as change from event
  union all
  select rank, pid, tid, part, end_ns as at_ns, -1 as change from event
),
level as (
  select
    rank, pid, tid, at_ns,
    lead(at_ns) over running - at_ns as len_ns,
    sum(case when part = 'op' then change else 0 end) over running as op,
    sum(case when part = 'runtime' then change else 0 end) over running as call,
    sum(case when part = 'os' then change else 0 end) over running as os,
    sum(case when part = 'overhead' then change else 0 end) over running as overhead
  from edge
  window running as (partition by rank, pid, tid order by at_ns rows unbounded preceding)
),
total as (
  select
    rank, pid, tid,
    max(at_ns) - min(at_ns) as span_ns,
    coalesce(sum(len_ns) filter (where op + call > 0), 0)::bigint as busy_ns,
    coalesce(sum(len_ns) filter (where op > 0), 0)::bigint as op_ns,
    coalesce(sum(len_ns) filter (where call > 0), 0)::bigint as call_ns,
    coalesce(sum(len_ns) filter (where os > 0), 0)::bigint as os_ns,
    coalesce(sum(len_ns) filter (where overhead > 0), 0)::bigint as overhead_ns
  from level
  group by rank, pid, tid
)
select total.rank, total.pid, total.tid, thread.name, thread.role, total.* exclude (rank, pid, tid)
from total
left join thread on thread.rank = total.rank and thread.pid = total.pid and thread.tid = total.tid
order by total.rank, busy_ns desc
