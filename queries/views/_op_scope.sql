-- /// view
-- sentence = "The operator around an operator or a runtime call: the innermost one on the same thread."
-- needs = ["host_event"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- event_id = { type = "bigint", doc = "The host_event, an operator or a runtime or driver call." }
-- outer_op_id = { type = "bigint", doc = "Innermost operator around it, itself not counted; NULL when there is none." }
-- ///
-- A sweep along each thread counts the open operators; the operator around an event is the last one that opened at the level of
-- that count. At equal times ends come before starts, and outer events before inner ones.
with event as (
  select rank, pid, tid, event_id, ts_ns, dur_ns, coalesce(depth, 0) as depth, kind = 'op' as is_op, kind = 'op' and dur_ns > 0 as opens
  from host_event
  where dur_ns is not null and kind in ('op', 'runtime', 'driver')
),
edge as (
  select rank, pid, tid, event_id, ts_ns as at_ns, 1 as phase, depth, opens, opens::int as change from event
  union all
  select rank, pid, tid, event_id, ts_ns + dur_ns as at_ns, 0 as phase, depth, opens, -1 as change from event where opens
),
walk as (
  select
    rank, pid, tid, event_id, phase, opens,
    row_number() over along as place,
    sum(change) over along as level
  from edge
  window along as (partition by rank, pid, tid order by at_ns, phase, depth, event_id rows unbounded preceding)
),
inner_event as (
  select rank, pid, tid, event_id, place, level - opens::int as outer_level from walk where phase = 1
),
opening as (
  select rank, pid, tid, event_id, place, level from walk where phase = 1 and opens
)
select inner_event.rank, inner_event.event_id, opening.event_id as outer_op_id
from inner_event
asof left join opening
  on opening.rank = inner_event.rank and opening.pid = inner_event.pid and opening.tid = inner_event.tid
  and opening.level = inner_event.outer_level and inner_event.place > opening.place
