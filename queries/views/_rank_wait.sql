-- /// view
-- sentence = "What each rank waited for others in a step's collectives (step NULL: outside all); of collectives in flight together each moment once."
-- needs = ["collective_part"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- step = { type = "bigint", doc = "Number of the step; NULL outside all." }
-- wait_ns = { type = "bigint", unit = "ns", doc = "Time in collectives that another rank had not reached." }
-- ///
-- A wait counts from where those before it ended.
with waiting as (
  select
    rank, step, ts_ns, wait_ns,
    max(ts_ns + wait_ns) over (partition by rank order by ts_ns, collective_id rows between unbounded preceding and 1 preceding) as covered_ns
  from collective_part
)
select rank, step, sum(greatest(0, ts_ns + wait_ns - greatest(ts_ns, coalesce(covered_ns, ts_ns))))::bigint as wait_ns
from waiting
group by rank, step
