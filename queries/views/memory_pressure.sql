-- /// view
-- sentence = "How full each rank's device memory was, how fragmented, and how much of the backward pass computes the forward again."
-- needs = ["source", "host_event", "memory_event", "device"]
-- small = true
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- capacity_bytes = { type = "bigint", unit = "bytes", doc = "Memory of the device whose allocator events are here; NULL when the file does not say." }
-- peak_allocated_bytes = { type = "bigint", unit = "bytes", doc = "Most device memory in use; NULL without allocator events." }
-- peak_reserved_bytes = { type = "bigint", unit = "bytes", doc = "Most device memory held by the allocator; NULL when the events do not say." }
-- fragmentation_share = { type = "double", unit = "share", doc = "Part of the most reserved memory that was never in use at once; NULL when the events do not say." }
-- recompute_ns = { type = "bigint", unit = "ns", doc = "Host time of forward operators inside backward nodes, over the capture; NULL without backward nodes." }
-- recompute_share = { type = "double", unit = "share", doc = "recompute_ns divided by the host time of the backward nodes." }
-- ///
with held as (
  select
    rank, arg_max(device, reserved_bytes) as device,
    max(allocated_bytes) as peak_allocated_bytes,
    max(reserved_bytes) as peak_reserved_bytes
  from memory_event
  where device_type <> 'cpu'
  group by rank
),
node as (
  select rank, pid, tid, ts_ns, ts_ns + dur_ns as end_ns, dur_ns from host_event where class = 'backward_node' and dur_ns > 0
),
-- A forward operator has a sequence number and no forward thread; inside a backward node it computes again.
again as (
  select operator.rank, operator.pid, operator.tid, operator.event_id, operator.ts_ns, operator.dur_ns
  from host_event as operator
  asof join node on node.rank = operator.rank and node.pid = operator.pid and node.tid = operator.tid and operator.ts_ns >= node.ts_ns
  where
    operator.kind = 'op' and operator.sequence_id is not null and coalesce(operator.forward_tid, 0) = 0
    and operator.dur_ns is not null and operator.class is distinct from 'backward_node' and operator.ts_ns < node.end_ns
),
outermost as (
  select *
  from again
  qualify coalesce(max(ts_ns + dur_ns) over (
    partition by rank, pid, tid order by ts_ns, dur_ns desc, event_id rows between unbounded preceding and 1 preceding
  ) <= ts_ns, true)
),
repeated as (select rank, sum(dur_ns) as recompute_ns from outermost group by rank),
backward as (select rank, sum(dur_ns) as dur_ns from node group by rank),
every_rank as (select distinct rank from source)
select
  every_rank.rank,
  device.memory_bytes as capacity_bytes,
  held.peak_allocated_bytes,
  nullif(held.peak_reserved_bytes, 0) as peak_reserved_bytes,
  case when held.peak_reserved_bytes > 0 and held.peak_allocated_bytes is not null then greatest(0, 1 - held.peak_allocated_bytes / held.peak_reserved_bytes) end::double as fragmentation_share,
  case when backward.dur_ns > 0 then coalesce(repeated.recompute_ns, 0) end::bigint as recompute_ns,
  case when backward.dur_ns > 0 then least(1, coalesce(repeated.recompute_ns, 0) / backward.dur_ns) end::double as recompute_share
from every_rank
left join held on held.rank = every_rank.rank
left join device on device.rank = held.rank and device.device = held.device
left join backward on backward.rank = every_rank.rank
left join repeated on repeated.rank = every_rank.rank
