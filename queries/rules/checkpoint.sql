-- /// rule
-- title = "Saving state stalls the loop"
-- bottleneck = "checkpoint"
-- needs = ["step_cause"]
-- why = "Checkpoints written on the loop's thread: rare and long, so judged by the mean over the window."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- saving_steps = { type = "bigint", doc = "Steady steps that spend more than a twentieth of their time saving." }
-- save_ns = { type = "bigint", unit = "ns", doc = "Mean saving time of such a step." }
-- top_scope = { type = "varchar", doc = "Range or frame with most of the time." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "{saving_steps} steps save for {save_ns} each; written by another thread from a copy, the loop only pays for the copy."
-- change = "write the checkpoint asynchronously (torch.distributed.checkpoint.async_save, or a thread that writes a CPU copy), at the same cadence."
-- kind = "system optimization"
-- guards = ["checkpoint_complete", "resumable", "recovery_point_bound", "host_memory"]
-- ///
with rank_cost as (select * from class_cost where cause = 'checkpoint'),
saving as (
  select step_cause.rank, count(*) as saving_steps, avg(step_cause.exclusive_ns)::bigint as save_ns
  from step_cause
  inner join steady_step on steady_step.rank = step_cause.rank and steady_step.step = step_cause.step
  where step_cause.cause = 'checkpoint' and step_cause.exclusive_ns * 20 > steady_step.dur_ns
  group by step_cause.rank
),
scope as (
  select rank, arg_max(scope, spent) as top_scope
  from (select rank, scope, sum(dur_ns) as spent from path_part where cause = 'checkpoint' and scope is not null group by rank, scope)
  group by rank
)
select
  rank_cost.rank,
  null::bigint as step,
  case when rank_cost.cost_share >= $min_share then 'hit' else 'clear' end as status,
  rank_cost.cost_ns,
  case when rank_cost.cost_share >= $min_share then 'the loop waits while state is saved' else 'no exposed saving in the steady steps' end as reason,
  rank_cost.cost_share as share,
  rank_cost.per_step_ns,
  rank_cost.path_per_step_ns,
  rank_cost.steps_hit,
  saving.saving_steps::bigint as saving_steps,
  saving.save_ns,
  scope.top_scope,
  null::varchar as not_advised
from rank_cost
left join saving on saving.rank = rank_cost.rank
left join scope on scope.rank = rank_cost.rank
