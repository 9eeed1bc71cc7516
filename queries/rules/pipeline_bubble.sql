-- /// rule
-- title = "A stage waits for another pipeline stage"
-- bottleneck = "pipeline_bubble"
-- needs = ["step_cause"]
-- why = "A receive lasts until the other stage sends: what it takes beyond the fastest receive of its size is waiting for that stage, not the link."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
-- repeats = { default = 3, doc = "Receives of one size from which on the fastest one can stand for the transfer." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "per_step_ns divided by the time of a steady step." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time per steady step of receives beyond the fastest one of their size (estimated)." }
-- receives_per_step = { type = "double", doc = "Receives, or sends and receives in one kernel, per step." }
-- mean_bytes = { type = "bigint", unit = "bytes", doc = "Mean size; NULL when not known." }
-- exposed_ns = { type = "bigint", unit = "ns", doc = "Exposed time per step of all sends and receives, transfers included." }
-- transfer_ns = { type = "bigint", unit = "ns", doc = "Their transfers per step: each at the time of the fastest of its size." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "The stage waits {per_step_ns} a step for another one over {receives_per_step} receives; with p stages and m micro-batches about (p - 1) / (m + p - 1) of a step is such waiting."
-- change = "double the micro-batches per update and halve their size, so that the global batch stays; nothing else."
-- kind = "system optimization"
-- guards = ["global_scaling", "all_ranks_run_it", "loss_curve", "peak_memory"]
-- ///
with rank_steps as (select rank, steps, sum(cost_ns) as time_ns from class_cost group by rank, steps),
exchange as (
  -- A send alone does not wait for what the other stage computes.
  select *, op not like '%send%' or op like '%recv%' as receives
  from collective_run
  where side = 'device' and kind = 'send_recv'
),
timed as (
  select
    *, case when count(*) over same >= $repeats then min(dur_ns) over same end as transfer_ns
  from exchange
  window same as (partition by rank, op, bytes)
),
exposed as (
  select timed.rank, timed.event_id, sum(path_part.dur_ns) as exposed_ns
  from path_part
  inner join timed on timed.rank = path_part.rank and timed.event_id = path_part.event_id
  where path_part.cause = 'exposed_comm' and path_part.resource like 'device:%'
  group by timed.rank, timed.event_id
),
fact as (
  select
    timed.rank,
    count(*) filter (where timed.receives) as receives,
    count(*) filter (where timed.receives and timed.transfer_ns is null) as single,
    avg(timed.bytes)::bigint as mean_bytes,
    coalesce(sum(exposed.exposed_ns), 0) as exposed_ns,
    coalesce(sum(greatest(exposed.exposed_ns - timed.transfer_ns, 0)) filter (where timed.receives), 0) as wait_ns,
    sum(timed.transfer_ns) as transfer_ns
  from timed
  left join exposed on exposed.rank = timed.rank and exposed.event_id = timed.event_id
  group by timed.rank
),
all_steps as (select rank, greatest(count(*), 1) as steps from step group by rank),
judged as (
  select
    rank_steps.rank, greatest(rank_steps.steps, 1) as steps, coalesce(all_steps.steps, 1) as all_steps, fact.* exclude (rank),
    coalesce(fact.wait_ns, 0) / nullif(rank_steps.time_ns, 0) as cost_share,
    case
      when fact.receives is null or fact.receives = 0 then 'clear'
      when fact.single * 2 > fact.receives then 'unknown'
      when fact.wait_ns >= $min_share * rank_steps.time_ns then 'hit'
      else 'clear'
    end as status
  from rank_steps
  left join fact on fact.rank = rank_steps.rank
  left join all_steps on all_steps.rank = rank_steps.rank
)
select
  rank,
  null::bigint as step,
  status,
  case when status <> 'unknown' then coalesce(wait_ns, 0) end::bigint as cost_ns,
  case
    when coalesce(receives, 0) = 0 then 'no receive from another stage in the capture'
    when status = 'unknown' then 'too few receives of one size to tell waiting from the transfer'
    when status = 'hit' then 'receives last longer than the fastest of their size: they wait for another stage'
    else 'receives take about as long as their transfer, or are hidden'
  end as reason,
  case when status <> 'unknown' then cost_share end::double as share,
  case when status <> 'unknown' then coalesce(wait_ns, 0) // steps end::bigint as per_step_ns,
  receives / all_steps::double as receives_per_step,
  mean_bytes,
  (exposed_ns // steps)::bigint as exposed_ns,
  (transfer_ns // all_steps)::bigint as transfer_ns,
  null::varchar as not_advised
from judged
