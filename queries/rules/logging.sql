-- /// rule
-- title = "Logging and scalar reads block the loop"
-- bottleneck = "logging"
-- needs = ["step_cause"]
-- why = "Scalar reads, metrics, prints and flushes on the loop's thread that leave the device idle."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
-- aim_share = { default = 0.02, unit = "share", doc = "An interval is suggested at which logging costs this share of the steps: below what repeated runs differ by." }
-- least_every = { default = 10, doc = "Shortest interval that is suggested: a shorter one is not worth the change." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- reads_per_step = { type = "double", doc = "Blocking scalar reads per step." }
-- top_scope = { type = "varchar", doc = "Range or frame with most of the time: who logs; NULL without ranges and stacks." }
-- log_every = { type = "bigint", doc = "Interval at which the cost falls below a fiftieth of the step (aim_share).", state = "estimated" }
-- steps_between_logs = { type = "double", doc = "Steps per logging step in the steady steps." }
-- top_detail = { type = "varchar", doc = "Call with most of the time." }
-- read_ns = { type = "bigint", unit = "ns", doc = "Time of the scalar reads per step, hidden or not." }
-- file_syncs = { type = "bigint", doc = "Calls that force a file to the disk; NULL without stacks." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "steps_hit > 1"
-- hypothesis = "Reading and writing metrics costs {per_step_ns} in {steps_hit} steps (mostly {top_scope}); every {log_every}th step costs that part of it."
-- change = "log every {log_every} steps; accumulate on the device in between and read once."
-- kind = "system optimization"
-- guards = ["observability_kept", "values_equal_at_logged_steps"]
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "Reading and writing metrics costs {per_step_ns} a step, mostly {top_scope}."
-- change = "hand metrics to a writer thread (queue.Queue with a bounded size; the thread writes and flushes); read scalars once per interval, all in one copy (torch.stack(values).tolist())."
-- kind = "system optimization"
-- guards = ["observability_kept", "values_equal_at_logged_steps"]
-- ///
with rank_cost as (select * from class_cost where cause = 'logging'),
reads as (
  select
    host_event.rank,
    count(*) filter (where class = 'scalar_copy') as reads,
    sum(dur_ns) filter (where class = 'scalar_copy') as read_ns,
    count(*) filter (where class = 'file_sync') as file_syncs,
    count(*) filter (where kind = 'python') as frames
  from host_event
  group by host_event.rank
),
scope as (
  select rank, arg_max(scope, spent) as top_scope
  from (select rank, scope, sum(dur_ns) as spent from path_part where cause = 'logging' and scope is not null group by rank, scope)
  group by rank
),
detail as (
  select rank, arg_max(detail, spent) as top_detail
  from (select rank, detail, sum(dur_ns) as spent from path_part where cause = 'logging' group by rank, detail)
  group by rank
),
all_steps as (select rank, count(*) as steps from step group by rank)
select
  rank_cost.rank,
  null::bigint as step,
  case when rank_cost.cost_share >= $min_share then 'hit' else 'clear' end as status,
  rank_cost.cost_ns,
  case
    when rank_cost.cost_share >= $min_share then 'logging or scalar reads block the loop'
    when reads.reads > 0 then 'the scalar reads wait for device work that would be waited for anyway, or cost little'
    else 'no logging that names or stacks would show'
  end as reason,
  rank_cost.cost_share as share,
  rank_cost.per_step_ns,
  rank_cost.path_per_step_ns,
  rank_cost.steps_hit,
  reads.reads / nullif(all_steps.steps, 0)::double as reads_per_step,
  scope.top_scope,
  greatest($least_every, ceil(rank_cost.steps / greatest(rank_cost.steps_hit, 1) * rank_cost.cost_share / $aim_share))::bigint as log_every,
  rank_cost.steps / nullif(rank_cost.steps_hit, 0)::double as steps_between_logs,
  detail.top_detail,
  (reads.read_ns // nullif(all_steps.steps, 0))::bigint as read_ns,
  case when reads.frames > 0 then reads.file_syncs end::bigint as file_syncs,
  case when rank_cost.cost_share < $min_share and reads.reads > 0
    then 'fewer scalar reads: they are exposed for less than ' || round(100 * $min_share)::bigint || ' % of the time'
  end as not_advised
from rank_cost
left join reads on reads.rank = rank_cost.rank
left join scope on scope.rank = rank_cost.rank
left join detail on detail.rank = rank_cost.rank
left join all_steps on all_steps.rank = rank_cost.rank
