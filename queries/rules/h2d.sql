-- /// rule
-- title = "Copies to the device are exposed"
-- bottleneck = "h2d"
-- needs = ["copy_cost"]
-- why = "Time in which the step waits for copies to the device and nothing computes."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
-- mostly = { default = 0.5, unit = "share", doc = "From this share of the bytes on, copies count as pageable." }
-- little_compute = { default = 0.1, doc = "Compute below this multiple of the copies cannot hide them." }
-- many = { default = 50, doc = "So many small copies a step are worth packing: each costs 5-20 µs whatever its size." }
-- small_bytes = { default = 65536, unit = "bytes", doc = "Copies below this size are dominated by their fixed cost." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- copies = { type = "bigint", doc = "Copies in this direction, all of the capture." }
-- copied_bytes = { type = "bigint", unit = "bytes", doc = "Bytes copied in this direction, all of the capture." }
-- pageable_share = { type = "double", unit = "share", doc = "Share of these bytes from or to pageable memory; NULL when the capture does not tell." }
-- bandwidth = { type = "double", unit = "bytes/s", doc = "Bytes per second while copies of 1 MiB or more ran." }
-- best_bandwidth = { type = "double", unit = "bytes/s", doc = "Fastest of them: what the link has shown that it can do." }
-- hidden_share = { type = "double", unit = "share", doc = "Share of the copying time that is not exposed." }
-- bound_ns = { type = "bigint", unit = "ns", doc = "When the copies are pageable: exposed time per step of all pageable copies, which pinned memory could remove at most.", state = "estimated" }
-- compute_ns = { type = "bigint", unit = "ns", doc = "Exposed compute per step: what copies could hide behind." }
-- copies_per_step = { type = "double", doc = "Copies in this direction per step." }
-- median_bytes = { type = "bigint", unit = "bytes", doc = "Median size." }
-- max_bytes = { type = "bigint", unit = "bytes", doc = "Largest size." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "pageable_share > mostly"
-- hypothesis = "Pageable memory is copied through a staging buffer and blocks the host ({bandwidth}); pinned memory copies at the link's speed and can overlap."
-- change = "DataLoader(pin_memory=True) and tensor.to(device, non_blocking=True) for these copies (the same for the other direction where it is pageable); nothing else."
-- kind = "system optimization"
-- guards = ["value_semantics", "stream_lifetime", "host_memory", "overlap_seen_in_next_trace"]
--
-- [[experiment]]
-- when = "coalesce(pageable_share, 0) <= mostly and copies_per_step >= many and median_bytes < small_bytes"
-- hypothesis = "{copies_per_step} copies a step, half of them below {median_bytes}: their fixed cost takes the time, not their bytes."
-- change = "pack what a step sends into one contiguous pinned buffer, copy it once with non_blocking=True, and take views of it on the device."
-- kind = "system optimization"
-- guards = ["value_semantics", "stream_lifetime"]
--
-- [[experiment]]
-- when = "coalesce(pageable_share, 0) <= mostly and compute_ns >= little_compute * per_step_ns"
-- hypothesis = "Copies take {per_step_ns} a step ({bandwidth}) in which nothing computes, beside {compute_ns} of compute; issued one step ahead on a side stream they can hide behind it, as far as it is long enough."
-- change = "prefetch the next batch on a side stream (record an event, wait for it on the compute stream); same tensors, same order."
-- kind = "system optimization"
-- guards = ["value_semantics", "stream_lifetime", "overlap_seen_in_next_trace"]
--
-- [[experiment]]
-- when = "coalesce(pageable_share, 0) <= mostly and compute_ns < little_compute * per_step_ns"
-- hypothesis = "Copies take {per_step_ns} a step ({bandwidth}), and there is next to no compute ({compute_ns}) to hide them behind: only fewer bytes cost less."
-- change = "send the compact form (uint8 images, int32 indices, no padding) and widen it on the device with the same arithmetic; keep on the device what every step copies again."
-- kind = "system optimization"
-- guards = ["value_semantics", "host_memory"]
-- ///
select
  rank,
  null::bigint as step,
  case when cost_share >= $min_share then 'hit' else 'clear' end as status,
  cost_ns,
  case
    when cost_share >= $min_share then 'copies to the device run or are waited for, and nothing computes'
    when copies = 0 then 'no such copy in the capture'
    else 'the copies are short, or hidden behind compute'
  end as reason,
  cost_share as share,
  per_step_ns,
  path_per_step_ns,
  steps_hit,
  copies,
  copied_bytes,
  pageable_share,
  large_bytes_per_s as bandwidth,
  best_bytes_per_s as best_bandwidth,
  hidden_share,
  case when pageable_share > $mostly then pageable_per_step_ns end as bound_ns,
  compute_per_step_ns as compute_ns,
  copies_per_step,
  median_bytes::bigint as median_bytes,
  max_bytes,
  case
    when pageable_share <= $mostly and cost_share >= $min_share then 'pinning memory: the copies are pinned already'
    when pageable_share > $mostly and pageable_cost_share < $min_share
      then 'pinning memory: the pageable copies are exposed for less than ' || round(100 * $min_share)::bigint || ' % of the time'
  end as not_advised
from copy_cost
where cause = 'h2d'
