-- /// rule
-- title = "Copies between devices are exposed"
-- bottleneck = "p2p"
-- needs = ["step_cause"]
-- why = "Peer copies that nothing hides: pipeline stages, tensors moved between devices by .to(), model parallelism in one process."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
-- large_bytes = { default = 1048576, unit = "bytes", doc = "Smaller copies are dominated by a fixed cost of 5-20 µs." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- copies_per_step = { type = "double", doc = "Peer copies per step." }
-- mean_bytes = { type = "bigint", unit = "bytes", doc = "Mean size; NULL when not known." }
-- bandwidth = { type = "double", unit = "bytes/s", doc = "Bytes per second while large ones ran." }
-- compute_ns = { type = "bigint", unit = "ns", doc = "Exposed compute per step: what a copy can hide behind." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "mean_bytes < large_bytes"
-- hypothesis = "{copies_per_step} peer copies a step of {mean_bytes} each are bound by latency; packed into one buffer per direction they pay it once."
-- change = "pack the tensors that cross devices together into one contiguous buffer per direction, copy it, and take views of it on the other side."
-- kind = "system optimization"
-- guards = ["value_semantics", "stream_lifetime"]
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "Peer copies take {per_step_ns} a step ({bandwidth}) while nothing computes, beside {compute_ns} of compute that they could run beside."
-- change = "issue the copies on a side stream (non_blocking=True) as soon as their source is ready, and let the consumer wait for an event; check with nvidia-smi topo -m that peer access goes over the fast link."
-- kind = "system optimization"
-- guards = ["value_semantics", "stream_lifetime", "overlap_seen_in_next_trace"]
-- ///
with rank_cost as (select * from class_cost where cause = 'p2p'),
fact as (
  select
    rank, count(*) as copies, avg(bytes)::bigint as mean_bytes,
    sum(bytes) filter (where bytes >= $large_bytes) * 1e9 / nullif(sum(busy_dur_ns) filter (where bytes >= $large_bytes), 0) as bandwidth
  from device_event
  where copy_kind = 'p2p'
  group by rank
),
compute as (select rank, per_step_ns from class_cost where cause = 'compute'),
all_steps as (select rank, count(*) as steps from step group by rank)
select
  rank_cost.rank,
  null::bigint as step,
  case when rank_cost.cost_share >= $min_share then 'hit' else 'clear' end as status,
  rank_cost.cost_ns,
  case
    when rank_cost.cost_share >= $min_share then 'copies between devices run and nothing computes'
    when fact.copies is null then 'no copy between devices in the capture'
    else 'the copies between devices are short, or hidden behind compute'
  end as reason,
  rank_cost.cost_share as share,
  rank_cost.per_step_ns,
  rank_cost.path_per_step_ns,
  rank_cost.steps_hit,
  fact.copies / greatest(coalesce(all_steps.steps, 1), 1)::double as copies_per_step,
  fact.mean_bytes,
  fact.bandwidth::double as bandwidth,
  compute.per_step_ns as compute_ns,
  null::varchar as not_advised
from rank_cost
inner join compute on compute.rank = rank_cost.rank
left join fact on fact.rank = rank_cost.rank
left join all_steps on all_steps.rank = rank_cost.rank
