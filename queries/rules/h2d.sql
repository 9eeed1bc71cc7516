-- /// rule
-- title = "Copies to the device are exposed"
-- bottleneck = "h2d"
-- needs = ["copy_cost"]
-- why = "Time in which the step waits for copies to the device and nothing computes."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
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
-- bound_ns = { type = "bigint", unit = "ns", doc = "When the copies are pageable: exposed time per step of all pageable copies, which pinned memory could remove at most." }
-- compute_ns = { type = "bigint", unit = "ns", doc = "Exposed compute per step: what copies could hide behind." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "pageable_share > 0.5"
-- hypothesis = "Pageable memory is copied through a staging buffer and blocks the host ({bandwidth}); pinned memory copies at the link's speed and can overlap."
-- change = "DataLoader(pin_memory=True) and tensor.to(device, non_blocking=True) for these copies (the same for the other direction where it is pageable); nothing else."
-- kind = "system optimization"
-- guards = ["value_semantics", "stream_lifetime", "host_memory", "overlap_seen_in_next_trace"]
--
-- [[experiment]]
-- when = "coalesce(pageable_share, 0) <= 0.5 and compute_ns >= 0.1 * per_step_ns"
-- hypothesis = "Copies take {per_step_ns} a step ({bandwidth}) in which nothing computes, beside {compute_ns} of compute; issued one step ahead on a side stream they can hide behind it, as far as it is long enough."
-- change = "prefetch the next batch on a side stream (record an event, wait for it on the compute stream); same tensors, same order."
-- kind = "system optimization"
-- guards = ["value_semantics", "stream_lifetime", "overlap_seen_in_next_trace"]
--
-- [[experiment]]
-- when = "coalesce(pageable_share, 0) <= 0.5 and compute_ns < 0.1 * per_step_ns"
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
  case when pageable_share > 0.5 then pageable_per_step_ns end as bound_ns,
  compute_per_step_ns as compute_ns,
  case
    when pageable_share <= 0.5 and cost_share >= $min_share then 'pinning memory: the copies are pinned already'
    when pageable_share > 0.5 and pageable_cost_share < $min_share
      then 'pinning memory: the pageable copies are exposed for less than ' || round(100 * $min_share)::bigint || ' % of the time'
  end as not_advised
from copy_cost
where cause = 'h2d'
