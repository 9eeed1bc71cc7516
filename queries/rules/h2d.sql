-- /// rule
-- title = "Copies to the device are exposed"
-- bottleneck = "h2d"
-- needs = ["step_cause"]
-- why = "Time in which the step waits for copies to the device and nothing computes."
--
-- [params.min_share]
-- default = 0.05
-- unit = "share"
-- doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by."
--
-- [params.large_bytes]
-- default = 1048576
-- unit = "bytes"
-- doc = "Smaller copies are dominated by their fixed cost of 5-20 µs, which pinning does not change."
--
-- [evidence.share]
-- type = "double"
-- unit = "share"
-- doc = "Exposed time of the class divided by the time of the steady steps."
--
-- [evidence.per_step_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Exposed time of the class per steady step (mean); of the window when there are no steps."
--
-- [evidence.path_per_step_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "The same for all its time on the path, hidden or not."
--
-- [evidence.steps_hit]
-- type = "bigint"
-- doc = "Steady steps in which the class has exposed time."
--
-- [evidence.copies]
-- type = "bigint"
-- doc = "Copies in this direction, all of the capture."
--
-- [evidence.copied_bytes]
-- type = "bigint"
-- unit = "bytes"
-- doc = "Bytes copied in this direction, all of the capture."
--
-- [evidence.pageable_share]
-- type = "double"
-- unit = "share"
-- doc = "Share of these bytes from or to pageable memory; NULL when the capture does not tell."
--
-- [evidence.bandwidth]
-- type = "double"
-- unit = "bytes/s"
-- doc = "Bytes per second while large copies ran."
--
-- [evidence.bound_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Exposed copy time per step in both directions: what pinned memory and overlap could remove at most."
--
-- [evidence.not_advised]
-- type = "varchar"
-- doc = "Advice that was considered and does not apply, with the reason."
--
-- [[experiment]]
-- when = "pageable_share > 0.5"
-- hypothesis = "Pageable memory is copied through a staging buffer and blocks the host ({bandwidth}); pinned memory copies at the link's speed and can overlap."
-- change = "DataLoader(pin_memory=True) and tensor.to(device, non_blocking=True) for these copies (the same for the other direction where it is pageable); nothing else."
-- kind = "system optimization"
-- invariants = ["data order and coverage", "loss, precision policy and optimizer", "global batch = microbatch x accumulation x data-parallel ranks", "seed policy"]
-- guards = ["value_semantics", "stream_lifetime", "host_memory", "overlap_seen_in_next_trace"]
-- measure = [
--   "profiler off; 5 warm-up steps; windows of 20 whole optimizer updates of both variants taking turns, at least 3 each",
--   "compare median and P95 of the update's wall time over the slowest rank, and peak memory",
--   "then one short profiled window of the changed variant: traceengine analyze NEW_TRACE",
-- ]
-- stop = "the median update does not improve beyond the spread of the base windows in 3 windows, or a guard fails"
-- rollback = "undo the one change"
--
-- [[experiment]]
-- when = "pageable_share is null or pageable_share <= 0.5"
-- hypothesis = "The copies run at {bandwidth} with nothing beside them; issued one step ahead on a side stream they can hide behind compute."
-- change = "prefetch the next batch on a side stream (record an event, wait for it on the compute stream); same tensors, same order."
-- kind = "system optimization"
-- invariants = ["data order and coverage", "loss, precision policy and optimizer", "global batch = microbatch x accumulation x data-parallel ranks", "seed policy"]
-- guards = ["value_semantics", "stream_lifetime", "overlap_seen_in_next_trace"]
-- measure = [
--   "profiler off; 5 warm-up steps; windows of 20 whole optimizer updates of both variants taking turns, at least 3 each",
--   "compare median and P95 of the update's wall time over the slowest rank, and peak memory",
--   "then one short profiled window of the changed variant: traceengine analyze NEW_TRACE",
-- ]
-- stop = "the median update does not improve beyond the spread of the base windows in 3 windows, or a guard fails"
-- rollback = "undo the one change"
-- ///
with rank_cost as (select * from class_cost where cause = 'h2d'),
copy as (
  select
    rank,
    count(*) as copies,
    sum(bytes)::bigint as copied_bytes,
    coalesce(sum(bytes) filter (where src_memory = 'pageable'), 0) / nullif(sum(bytes) filter (where src_memory is not null), 0)
      as pageable_share,
    sum(bytes) filter (where bytes >= $large_bytes) * 1e9 / nullif(sum(busy_dur_ns) filter (where bytes >= $large_bytes), 0) as bandwidth
  from device_event
  where copy_kind = 'h2d'
  group by rank
),
both_ways as (select rank, sum(exclusive_ns) as both_ns from path_cost where cause in ('h2d', 'd2h') group by rank)
select
  rank_cost.rank,
  null::bigint as step,
  case when rank_cost.cost_share >= $min_share then 'hit' else 'clear' end as status,
  rank_cost.cost_ns,
  case
    when rank_cost.cost_share >= $min_share then 'copies to the device are exposed'
    when copy.copies is null then 'no such copy in the capture'
    else 'the copies are short, or hidden behind compute'
  end as reason,
  rank_cost.cost_share as share,
  rank_cost.per_step_ns,
  rank_cost.path_per_step_ns,
  rank_cost.steps_hit,
  copy.copies::bigint as copies,
  copy.copied_bytes,
  copy.pageable_share,
  copy.bandwidth,
  coalesce(both_ways.both_ns // greatest(rank_cost.steps, 1), 0)::bigint as bound_ns,
  case
    when copy.pageable_share <= 0.5 and rank_cost.cost_share >= $min_share then 'pinning memory: the copies are pinned already'
    when copy.pageable_share > 0.5 and rank_cost.cost_share < $min_share then 'pinning memory: the pageable copies cost no exposed time'
  end as not_advised
from rank_cost
left join copy on copy.rank = rank_cost.rank
left join both_ways on both_ways.rank = rank_cost.rank
