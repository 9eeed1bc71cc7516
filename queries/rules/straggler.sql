-- /// rule
-- title = "Collectives wait for a late rank"
-- bottleneck = "straggler"
-- needs = ["step_cause"]
-- why = "A collective ends on all ranks together, so the first to arrive wait for the last: the late rank shows the least communication, and its own path says why it is late."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
-- one_rank_late = { default = 0.6, unit = "share", doc = "From this share of the waiting on, one rank is late and not now this one, now another." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- late_rank = { type = "bigint", doc = "Rank that this rank waits for most." }
-- late_share = { type = "double", unit = "share", doc = "Share of this rank's waiting that is for it." }
-- late_cause = { type = "varchar", doc = "Class id that made it late most, see lateness; NULL when it is not known." }
-- late_ns = { type = "bigint", unit = "ns", doc = "By how much that made it late, per step." }
-- wait_ns = { type = "bigint", unit = "ns", doc = "Waiting in matched collectives per step, hidden or not; of those in flight together each moment once." }
-- transfer_ns = { type = "bigint", unit = "ns", doc = "The rest of these collectives per step, summed over them." }
-- matched = { type = "bigint", doc = "Collectives of this rank that were matched across ranks." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "late_share >= one_rank_late and late_cause <> 'compute'"
-- hypothesis = "Rank {late_rank} arrives last, {late_ns} a step later than the others because of its {late_cause}; all ranks wait for it."
-- change = "on rank {late_rank}, make the change that the verdict of its own trace advises for {late_cause} (traceengine analyze on that file alone); leave the other ranks as they are."
-- kind = "system optimization"
-- guards = ["sample_coverage", "all_ranks_run_it", "loss_curve"]
--
-- [[experiment]]
-- when = "late_share >= one_rank_late"
-- hypothesis = "Rank {late_rank} arrives last in most collectives, with more to compute or a slower device than the others."
-- change = "start the job once with the devices of rank {late_rank} and of another rank exchanged (CUDA_VISIBLE_DEVICES, or the order of hosts): if the lateness moves with the device it is the hardware, else it is the rank's share of the work."
-- kind = "system optimization"
-- guards = ["sample_coverage", "all_ranks_run_it", "loss_curve"]
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "Ranks wait {wait_ns} a step for one another, now for this one, now for that one: the work per step varies between ranks."
-- change = "even out the work per step: sort samples into buckets by length before they are dealt to ranks, so that all ranks get batches of equal length; keep the set of samples per epoch."
-- kind = "system optimization"
-- guards = ["sample_coverage", "input_equivalence", "all_ranks_run_it", "loss_curve"]
-- ///
with rank_cost as (select * from class_cost where cause = 'straggler'),
present as (select count(distinct rank) as ranks from source),
running as (select rank, count(*) as runs from collective_run group by rank),
part as (
  select mine.rank, mine.wait_ns, mine.transfer_ns, latest.rank as late_rank
  from collective_part as mine
  left join collective_part as latest on latest.collective_id = mine.collective_id and latest.last
),
whole as (select rank, sum(wait_ns) as wait_ns from _rank_wait group by rank),
waited as (
  select part.rank, count(*) as matched, any_value(whole.wait_ns) as wait_ns, sum(part.transfer_ns) as transfer_ns
  from part
  inner join whole on whole.rank = part.rank
  group by part.rank
),
late as (
  select rank, arg_max(late_rank, wait_ns) as late_rank, max(wait_ns) / nullif(sum(wait_ns), 0) as late_share
  from (select rank, late_rank, sum(wait_ns) as wait_ns from part where late_rank <> rank group by rank, late_rank)
  group by rank
),
reason as (
  select rank, arg_max(cause, late_ns) as late_cause, max(late_ns) as late_ns
  from (select rank, cause, sum(late_ns) as late_ns from lateness where cause <> 'unknown' group by rank, cause)
  group by rank
),
all_steps as (select rank, count(*) as steps from step group by rank),
fact as (
  select
    rank_cost.*, coalesce(running.runs, 0) as runs, waited.* exclude (rank), late.late_rank, late.late_share, reason.late_cause, reason.late_ns,
    greatest(coalesce(all_steps.steps, 1), 1) as all_steps,
    case
      when running.runs is null then 'clear'
      when waited.matched is null then 'unknown'
      when rank_cost.cost_share >= $min_share then 'hit'
      else 'clear'
    end as status
  from rank_cost
  left join running on running.rank = rank_cost.rank
  left join waited on waited.rank = rank_cost.rank
  left join late on late.rank = rank_cost.rank
  left join reason on reason.rank = late.late_rank
  left join all_steps on all_steps.rank = rank_cost.rank
)
select
  fact.rank,
  null::bigint as step,
  status,
  case when status <> 'unknown' then cost_ns end as cost_ns,
  case
    when runs = 0 then 'no collective in the capture'
    when status = 'unknown' and present.ranks = 1 then 'needs the traces of the other ranks'
    when status = 'unknown' then 'no collective of this rank was found on another one'
    when status = 'clear' and wait_ns * 20 > wait_ns + transfer_ns then 'the waiting for other ranks is short, or hidden behind compute'
    when status = 'clear' then 'this rank does not wait for others'
    when late_share >= $one_rank_late then 'the collectives wait for rank ' || late_rank || coalesce(', late because of its ' || late_cause, '')
    else 'the collectives wait for late ranks, now one, now another'
  end as reason,
  case when status <> 'unknown' then cost_share end as share,
  case when status <> 'unknown' then per_step_ns end as per_step_ns,
  case when status <> 'unknown' then path_per_step_ns end as path_per_step_ns,
  case when status <> 'unknown' then steps_hit end as steps_hit,
  late_rank,
  late_share::double as late_share,
  late_cause,
  (late_ns // all_steps)::bigint as late_ns,
  (wait_ns // all_steps)::bigint as wait_ns,
  (transfer_ns // all_steps)::bigint as transfer_ns,
  matched::bigint as matched,
  null::varchar as not_advised
from fact
cross join present
