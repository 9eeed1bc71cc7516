-- /// view
-- sentence = "When the host worked on each step: from its marker to the next one, the last to its marker's end."
-- needs = ["step"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- step = { type = "bigint", doc = "Step." }
-- from_ns = { type = "bigint", unit = "ns", doc = "Start of the marker." }
-- until_ns = { type = "bigint", unit = "ns", doc = "Start of the next marker, or the end of the last one." }
-- ///
with marker as (
  select rank, step, coalesce(host_ts_ns, ts_ns) as from_ns, coalesce(host_ts_ns + host_dur_ns, ts_ns + dur_ns) as end_ns
  from step
)
select rank, step, from_ns, coalesce(lead(from_ns) over (partition by rank order by from_ns), end_ns) as until_ns
from marker
