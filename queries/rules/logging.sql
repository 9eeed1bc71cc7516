-- /// rule
-- title = "Logging and scalar reads block the loop"
-- bottleneck = "logging"
-- needs = ["step_cause"]
-- why = "Scalar reads, metrics, prints and flushes on the loop's thread that leave the device idle."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- reads_per_step = { type = "double", doc = "Blocking scalar reads per step." }
-- top_scope = { type = "varchar", doc = "Range or frame with most of the time; NULL without ranges and stacks." }
-- log_every = { type = "bigint", doc = "Interval at which the cost falls below a fiftieth of the step." }
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
-- hypothesis = "Reading and writing metrics costs {per_step_ns} a step."
-- change = "hand metrics to a writer thread; read scalars once per interval."
-- kind = "system optimization"
-- guards = ["observability_kept", "values_equal_at_logged_steps"]
-- ///
with rank_cost as (select * from class_cost where cause = 'logging'),
reads as (
  select rank, count(*) as reads
  from host_event
  where class = 'scalar_copy'
  group by rank
),
scope as (
  select rank, arg_max(scope, spent) as top_scope
  from (select rank, scope, sum(dur_ns) as spent from path_part where cause = 'logging' and scope is not null group by rank, scope)
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
  greatest(10, ceil(rank_cost.cost_share * 50))::bigint as log_every,
  case when rank_cost.cost_share < $min_share and reads.reads > 0
    then 'fewer scalar reads: they are exposed for less than ' || round(100 * $min_share)::bigint || ' % of the time'
  end as not_advised
from rank_cost
left join reads on reads.rank = rank_cost.rank
left join scope on scope.rank = rank_cost.rank
left join all_steps on all_steps.rank = rank_cost.rank
