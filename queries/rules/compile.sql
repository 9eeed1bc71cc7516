-- /// rule
-- title = "Compilation inside steady steps"
-- bottleneck = "compile"
-- needs = ["step_cause"]
-- why = "Compiling, recompiling, graph capture or module loading in steady steps: work that a warmed-up loop does not do."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- compilations = { type = "bigint", doc = "Outermost compile events in the steady steps; forward and backward of a compiled module are two." }
-- compile_ns = { type = "bigint", unit = "ns", doc = "Mean duration of one." }
-- what = { type = "varchar", doc = "Name of the longest one." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "steps_hit > 1 and compilations > 1"
-- hypothesis = "{compilations} compilations in steady steps, {compile_ns} each: the compiled code does not fit the shapes or values that come."
-- change = "keep one cause of recompilation fixed: mark the changing dimension dynamic (torch._dynamo.mark_dynamic or dynamic=True), or pad it to few bucket sizes; TORCH_LOGS=recompiles names it."
-- kind = "system optimization"
-- guards = ["forward_parity", "backward_parity", "update_parity", "shape_coverage", "warm_up_excluded"]
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "{per_step_ns} a step go to compilation; once warm it does not come back."
-- change = "run the representative shapes before the measured window (warm-up), with the compile cache kept; nothing else."
-- kind = "system optimization"
-- guards = ["forward_parity", "warm_up_excluded", "shape_coverage"]
-- ///
with rank_cost as (select * from class_cost where cause = 'compile'),
-- Operators and ranges stand between the phases of one compilation, so that the parent alone does not tell what is outermost.
outermost as (
  select rank, name, ts_ns, dur_ns
  from host_event
  where class in ('compile_phase', 'module_load', 'graph_capture') and dur_ns > 0
  qualify coalesce(max(ts_ns + dur_ns) over (
    partition by rank, pid, tid order by ts_ns, dur_ns desc, event_id rows between unbounded preceding and 1 preceding
  ) <= ts_ns, true)
),
event as (
  select outermost.rank, count(*) as compilations, avg(outermost.dur_ns)::bigint as compile_ns, arg_max(outermost.name, outermost.dur_ns) as what
  from outermost
  inner join steady_step
    on
      steady_step.rank = outermost.rank
      and outermost.ts_ns >= steady_step.ts_ns
      and outermost.ts_ns < steady_step.ts_ns + steady_step.dur_ns
  group by outermost.rank
)
select
  rank_cost.rank,
  null::bigint as step,
  case when rank_cost.cost_share >= $min_share then 'hit' else 'clear' end as status,
  rank_cost.cost_ns,
  case when rank_cost.cost_share >= $min_share then 'compilation in steady steps' else 'no exposed compilation in steady steps' end as reason,
  rank_cost.cost_share as share,
  rank_cost.per_step_ns,
  rank_cost.path_per_step_ns,
  rank_cost.steps_hit,
  event.compilations::bigint as compilations,
  event.compile_ns,
  event.what,
  null::varchar as not_advised
from rank_cost
left join event on event.rank = rank_cost.rank
