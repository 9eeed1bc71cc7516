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
-- sort = { type = "varchar", doc = "Kind with the most time: compile_phase, autotune, module_load or graph_capture." }
-- frame = { type = "varchar", doc = "Compiled region with the highest count of recompilations, as frame/recompilation; NULL when the capture does not name regions." }
-- graph_breaks_per_step = { type = "double", doc = "Compiled regions per step beyond the first: each break ends one; NULL without regions." }
-- shapes = { type = "bigint", doc = "Different input shapes of compiled regions; NULL without record_shapes." }
-- autotune_ns = { type = "bigint", unit = "ns", doc = "Time of trying kernel configurations in the steady steps; 0 when there was none." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "sort = 'module_load'"
-- hypothesis = "{compilations} kernels or modules are loaded when they are first used, in the middle of steady steps ({compile_ns} each)."
-- change = "set CUDA_MODULE_LOADING=EAGER in the environment of the job: everything is loaded before the first step; nothing else."
-- kind = "system optimization"
-- guards = ["warm_up_excluded", "peak_memory"]
--
-- [[experiment]]
-- when = "sort = 'graph_capture'"
-- hypothesis = "CUDA graphs are captured again in steady steps ({compilations} times, {compile_ns} each): shapes or input addresses change."
-- change = "keep captured inputs in place: copy each batch into buffers that are allocated once (static shapes, padded to few sizes), and call torch.compiler.cudagraph_mark_step_begin() at the start of a step."
-- kind = "system optimization"
-- guards = ["forward_parity", "backward_parity", "static_input_lifetime", "shape_coverage", "peak_memory"]
--
-- [[experiment]]
-- when = "sort = 'autotune'"
-- hypothesis = "Trying kernel configurations takes {autotune_ns} of the window; the choice is the same every time."
-- change = "choose before the window: run every shape once as warm-up, and keep TORCHINDUCTOR_CACHE_DIR on a disk that outlives the job, so that the next start finds the choices."
-- kind = "system optimization"
-- guards = ["forward_parity", "warm_up_excluded", "shape_coverage"]
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
  select rank, class, name, ts_ns, dur_ns
  from host_event
  where class in ('compile_phase', 'autotune', 'module_load', 'graph_capture') and dur_ns > 0
  qualify coalesce(max(ts_ns + dur_ns) over (
    partition by rank, pid, tid order by ts_ns, dur_ns desc, event_id rows between unbounded preceding and 1 preceding
  ) <= ts_ns, true)
),
inside as (
  select outermost.*
  from outermost
  inner join steady_step
    on
      steady_step.rank = outermost.rank
      and outermost.ts_ns >= steady_step.ts_ns
      and outermost.ts_ns < steady_step.ts_ns + steady_step.dur_ns
),
event as (
  select rank, count(*) as compilations, avg(dur_ns)::bigint as compile_ns, arg_max(name, dur_ns) as what from inside group by rank
),
sort as (
  select rank, arg_max(class, spent) as sort
  from (select rank, class, sum(dur_ns) as spent from inside group by rank, class)
  group by rank
),
tuning as (
  select host_event.rank, sum(host_event.dur_ns) as autotune_ns
  from host_event
  inner join steady_step
    on
      steady_step.rank = host_event.rank
      and host_event.ts_ns >= steady_step.ts_ns
      and host_event.ts_ns < steady_step.ts_ns + steady_step.dur_ns
  where host_event.class = 'autotune'
  group by host_event.rank
),
region as (
  select
    rank,
    regexp_extract(name, '([0-9]+/[0-9]+)', 1) as frame,
    try_cast(regexp_extract(name, '[0-9]+/([0-9]+)', 1) as bigint) as recompilation,
    args ->> '$."Input Dims"' as shapes
  from host_event
  where class = 'compiled_region'
),
regions as (
  select
    rank, count(*) as regions, arg_max(nullif(frame, ''), recompilation) as frame,
    nullif(count(distinct shapes), 0) as shapes
  from region
  group by rank
),
all_steps as (select rank, count(*) as steps from step group by rank)
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
  sort.sort,
  regions.frame,
  case when all_steps.steps > 0 and regions.regions > 0 then greatest(0, regions.regions / all_steps.steps - 1) end::double as graph_breaks_per_step,
  regions.shapes,
  coalesce(tuning.autotune_ns, 0)::bigint as autotune_ns,
  null::varchar as not_advised
from rank_cost
left join event on event.rank = rank_cost.rank
left join sort on sort.rank = rank_cost.rank
left join tuning on tuning.rank = rank_cost.rank
left join regions on regions.rank = rank_cost.rank
left join all_steps on all_steps.rank = rank_cost.rank
