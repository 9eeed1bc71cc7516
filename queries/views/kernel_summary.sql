-- /// view
-- sentence = "Kernels by name: how often, how long, and their part of the device's summed kernel time."
-- needs = ["device_event"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- device = { type = "bigint", doc = "Device number." }
-- class = { type = "varchar", doc = "Class." }
-- name = { type = "varchar", doc = "Name." }
-- count = { type = "bigint", doc = "Number of runs." }
-- total_ns = { type = "bigint", unit = "ns", doc = "Sum of durations; may exceed wall time when streams overlap." }
-- mean_ns = { type = "double", unit = "ns", doc = "Mean duration." }
-- median_ns = { type = "double", unit = "ns", doc = "Median duration." }
-- min_ns = { type = "bigint", unit = "ns", doc = "Shortest." }
-- max_ns = { type = "bigint", unit = "ns", doc = "Longest." }
-- total_share = { type = "double", unit = "share", doc = "total_ns of the device's summed kernel time." }
-- overruns = { type = "bigint", doc = "Runs whose recorded duration is impossible and was cut (busy_dur_ns)." }
-- ///
select
  rank, device, class, name,
  count(*) as count,
  sum(busy_dur_ns)::bigint as total_ns,
  avg(busy_dur_ns) as mean_ns,
  median(busy_dur_ns) as median_ns,
  min(busy_dur_ns) as min_ns,
  max(busy_dur_ns) as max_ns,
  sum(busy_dur_ns) / nullif(sum(sum(busy_dur_ns)) over (partition by rank, device), 0) as total_share,
  count(*) filter (where busy_dur_ns < dur_ns) as overruns
from device_event
where kind in ('kernel', 'graph')
group by rank, device, class, name
order by rank, device, total_ns desc, name
