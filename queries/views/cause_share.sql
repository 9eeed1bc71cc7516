-- /// view
-- sentence = "What the critical path of each rank consists of: wall time and share by cause. The causes of a rank add up to its window."
-- needs = ["critical_path"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- cause = { type = "varchar", doc = "Class id (docs/reference/classes.md)." }
-- path_ns = { type = "bigint", unit = "ns", doc = "Wall time on the critical path." }
-- path_share = { type = "double", unit = "share", doc = "path_ns of the rank's window." }
-- segments = { type = "bigint", doc = "Number of segments." }
-- estimated_ns = { type = "bigint", unit = "ns", doc = "Part of path_ns that rests on an inferred edge." }
-- ///
select
  rank, cause,
  sum(dur_ns)::bigint as path_ns,
  sum(dur_ns) / sum(sum(dur_ns)) over (partition by rank) as path_share,
  count(*) as segments,
  coalesce(sum(dur_ns) filter (where state = 'estimated'), 0)::bigint as estimated_ns
from critical_path
group by rank, cause
order by rank, path_ns desc, cause
