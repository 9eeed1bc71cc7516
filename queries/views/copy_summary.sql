-- /// view
-- sentence = "Copies by direction and kind of memory: how many, how large, how fast."
-- needs = ["device_event"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- device = { type = "bigint", doc = "Device number." }
-- copy_kind = { type = "varchar", doc = "h2d, d2h, d2d, h2h, p2p; NULL when the file does not tell." }
-- src_memory = { type = "varchar", doc = "Kind of memory copied from; NULL when the file does not tell." }
-- dst_memory = { type = "varchar", doc = "Kind of memory copied to; NULL when the file does not tell." }
-- count = { type = "bigint", doc = "Number of copies." }
-- bytes = { type = "bigint", unit = "bytes", doc = "Sum of the sizes that are known; NULL when none is." }
-- without_bytes = { type = "bigint", doc = "Copies whose size is not known." }
-- median_bytes = { type = "double", unit = "bytes", doc = "Median size." }
-- max_bytes = { type = "bigint", unit = "bytes", doc = "Largest size." }
-- total_ns = { type = "bigint", unit = "ns", doc = "Sum of durations; may exceed wall time when streams overlap." }
-- bytes_per_s = { type = "double", unit = "bytes/s", doc = "Size by duration over the copies whose size is known." }
-- ///
select
  rank, device, copy_kind, src_memory, dst_memory,
  count(*) as count,
  sum(bytes)::bigint as bytes,
  count(*) filter (where bytes is null) as without_bytes,
  median(bytes) as median_bytes,
  max(bytes) as max_bytes,
  sum(busy_dur_ns)::bigint as total_ns,
  sum(bytes) * 1e9 / nullif(sum(busy_dur_ns) filter (where bytes is not null), 0) as bytes_per_s
from device_event
where kind = 'memcpy'
group by rank, device, copy_kind, src_memory, dst_memory
order by rank, device, total_ns desc
