-- /// view
-- sentence = "A host event with the part of its duration that no event inside it covers."
-- needs = ["host_event"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- event_id = { type = "bigint", doc = "The host_event." }
-- kind = { type = "varchar", doc = "Kind of the event." }
-- class = { type = "varchar", doc = "What its name means; NULL when nothing special." }
-- name = { type = "varchar", doc = "Name." }
-- pid = { type = "bigint", doc = "Process." }
-- tid = { type = "bigint", doc = "Thread." }
-- ts_ns = { type = "bigint", unit = "ns", doc = "Start." }
-- dur_ns = { type = "bigint", unit = "ns", doc = "Duration; NULL for a range that the capture never closed." }
-- child_ns = { type = "bigint", unit = "ns", doc = "Time of the events directly inside it." }
-- self_ns = { type = "bigint", unit = "ns", doc = "dur_ns without child_ns; NULL when dur_ns is." }
-- ///
with child as (
  select rank, parent_id, sum(dur_ns)::bigint as child_ns
  from host_event
  where parent_id is not null
  group by rank, parent_id
)
select
  host_event.rank, host_event.event_id, host_event.kind, host_event.class, host_event.name, host_event.pid, host_event.tid,
  host_event.ts_ns, host_event.dur_ns,
  coalesce(child.child_ns, 0) as child_ns,
  case when host_event.dur_ns is not null then greatest(host_event.dur_ns - coalesce(child.child_ns, 0), 0) end as self_ns
from host_event
left join child on child.rank = host_event.rank and child.parent_id = host_event.event_id
