-- /// rule
-- title = "Saving state stalls the loop"
-- bottleneck = "checkpoint"
-- needs = ["step_cause"]
-- why = "Checkpoints written on the loop's thread: rare and long, so judged by the mean over the window."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
-- saving_share = { default = 0.05, unit = "share", doc = "A step saves state when more than this share of it is saving." }
-- aim_share = { default = 0.02, unit = "share", doc = "A cadence is suggested at which saving costs this share of the steps: below what repeated runs differ by." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- saving_steps = { type = "bigint", doc = "Steady steps that save state." }
-- save_ns = { type = "bigint", unit = "ns", doc = "Mean saving time of such a step." }
-- steps_between_saves = { type = "double", doc = "Steps per save in the steady steps; NULL below two saves." }
-- suggested_every = { type = "bigint", doc = "Steps per save at which saving costs 2 % of the steps (aim_share).", state = "estimated" }
-- top_scope = { type = "varchar", doc = "Range or frame with most of the time." }
-- copied_bytes = { type = "bigint", unit = "bytes", doc = "Bytes copied from the device during a save (mean); NULL when no copy shows them." }
-- save_bandwidth = { type = "double", unit = "bytes/s", doc = "These bytes by the time of a save." }
-- ranks = { type = "bigint", doc = "Ranks of the job, as the capture says; NULL when it does not." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "ranks > 1"
-- hypothesis = "{saving_steps} steps save for {save_ns} each; each rank writing its own part from a copy, in the background, leaves the loop only the copy."
-- change = "save with torch.distributed.checkpoint.async_save (sharded: every rank writes its own part), at the same cadence; wait for the one before when the next begins."
-- kind = "system optimization"
-- guards = ["checkpoint_complete", "resumable", "recovery_point_bound", "host_memory"]
-- measure = ["profiler off; 5 warm-up steps; windows of a whole number of saves of both variants taking turns, at least 3 each", "compare the mean update (saves are rare: the median hides them) and its P95 over the slowest rank, and peak host memory", "load the last checkpoint of both variants and compare every tensor"]
--
-- [[experiment]]
-- when = "saving_steps > 0"
-- hypothesis = "{saving_steps} steps save for {save_ns} each; written by another thread from a copy, the loop only pays for the copy."
-- change = "write the checkpoint asynchronously (torch.distributed.checkpoint.async_save, or a thread that writes a CPU copy), at the same cadence."
-- kind = "system optimization"
-- guards = ["checkpoint_complete", "resumable", "recovery_point_bound", "host_memory"]
-- measure = ["profiler off; 5 warm-up steps; windows of a whole number of saves of both variants taking turns, at least 3 each", "compare the mean update (saves are rare: the median hides them) and its P95 over the slowest rank, and peak host memory", "load the last checkpoint of both variants and compare every tensor"]
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "State is saved a little in many steps, {per_step_ns} a step (mostly {top_scope}); every {suggested_every}th step it costs 2 % of them."
-- change = "save every {suggested_every} steps; a crash then loses at most that many."
-- kind = "system optimization"
-- guards = ["checkpoint_complete", "resumable", "recovery_point_bound"]
-- ///
with rank_cost as (select * from class_cost where cause = 'checkpoint'),
saving as (
  select step_cause.rank, count(*) as saving_steps, avg(step_cause.exclusive_ns)::bigint as save_ns
  from step_cause
  inner join steady_step on steady_step.rank = step_cause.rank and steady_step.step = step_cause.step
  where step_cause.cause = 'checkpoint' and step_cause.exclusive_ns > $saving_share * steady_step.dur_ns
  group by step_cause.rank
),
scope as (
  select rank, arg_max(scope, spent) as top_scope
  from (select rank, scope, sum(dur_ns) as spent from path_part where cause = 'checkpoint' and scope is not null group by rank, scope)
  group by rank
),
copied as (
  -- Copies back that the path met inside saving: it gives them this cause.
  select path_part.rank, sum(device_event.bytes) as bytes
  from (select distinct rank, event_id from path_part where cause = 'checkpoint' and resource like 'device:%') as path_part
  inner join device_event on device_event.rank = path_part.rank and device_event.event_id = path_part.event_id
  where device_event.copy_kind = 'd2h'
  group by path_part.rank
),
world as (select rank, max(world_size) as ranks from source group by rank)
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
  case when saving.saving_steps > 1 then rank_cost.steps / saving.saving_steps::double end as steps_between_saves,
  -- Saving costs share of the steps now; so many times more seldom it costs the aim.
  case when rank_cost.cost_share > 0 then
    ceil(rank_cost.steps / greatest(coalesce(saving.saving_steps, rank_cost.steps_hit), 1) * greatest(rank_cost.cost_share / $aim_share, 1))
  end::bigint as suggested_every,
  scope.top_scope,
  (copied.bytes / nullif(saving.saving_steps, 0))::bigint as copied_bytes,
  (copied.bytes * 1e9 / nullif(saving.saving_steps * saving.save_ns, 0))::double as save_bandwidth,
  world.ranks,
  null::varchar as not_advised
from rank_cost
left join saving on saving.rank = rank_cost.rank
left join scope on scope.rank = rank_cost.rank
left join copied on copied.rank = rank_cost.rank
left join world on world.rank = rank_cost.rank
