-- /// rule
-- title = "The loop's thread is busy or blocked without an event"
-- bottleneck = "host_other"
-- needs = ["step_cause"]
-- why = "Long stretches that no event covers: saving, logging, garbage collection, locks or I/O that only stacks would name."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
-- mostly = { default = 0.5, unit = "share", doc = "From this share of the time on, something explains it." }
-- burst = { default = 2, doc = "So many scalar reads next to such a stretch point to logging." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- longest_ns = { type = "bigint", unit = "ns", doc = "Longest stretch." }
-- after_optimizer_share = { type = "double", unit = "share", doc = "Share of this time that follows the step's last optimizer call." }
-- hint = { type = "varchar", doc = "What the operators around the stretches point to; a hint and no verdict." }
-- gc_ns = { type = "bigint", unit = "ns", doc = "Garbage collection per step; NULL without stacks." }
-- gc_share = { type = "double", unit = "share", doc = "Garbage collection in the class's time; NULL without stacks." }
-- os_call = { type = "varchar", doc = "Call of the operating system with the most of this time; NULL without OS-runtime records." }
-- os_share = { type = "double", unit = "share", doc = "Share of the class's time inside such calls (waits, locks, files); NULL without OS-runtime records." }
-- top_scope = { type = "varchar", doc = "Range or frame around most of it; NULL without ranges and stacks." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "gc_share >= mostly"
-- hypothesis = "Python's garbage collector runs in the loop for {gc_ns} a step, whenever enough objects were made."
-- change = "gc.collect(); gc.freeze(); gc.disable() once before the loop, and gc.collect() every 1000 steps at the same step on all ranks; nothing else."
-- kind = "system optimization"
-- guards = ["host_memory", "all_ranks_run_it"]
-- measure = ["profiler off; windows of 1000 whole updates of both variants taking turns, at least 3 each", "compare the mean update and its P95 over the slowest rank, and host memory at the end of each window"]
-- stop = "the mean update does not improve beyond the spread of the base windows in 3 windows, or host memory keeps growing"
--
-- [[experiment]]
-- when = "os_share >= mostly"
-- hypothesis = "{os_share} of this time the loop's thread is inside {os_call} (range or frame: {top_scope}), and no range says for what."
-- change = "put a range around each part of the loop (torch.cuda.nvtx.range or torch.profiler.record_function), record once more, and move the part that calls {os_call} to a background thread."
-- kind = "system optimization"
-- guards = ["observability_kept", "checkpoint_complete"]
--
-- [[experiment]]
-- when = "after_optimizer_share >= mostly"
-- hypothesis = "What follows the optimizer in a step (metrics, prints, saving) holds the loop for up to {longest_ns}; without it the step ends earlier. Sign in the capture: {hint}."
-- change = "for one measurement, skip everything between optimizer.step() and the next batch; record one more window with with_stack=True to name it."
-- kind = "system optimization"
-- guards = ["observability_kept", "checkpoint_complete"]
-- measure = ["profiler off; 5 warm-up steps; windows of 20 whole optimizer updates of both variants taking turns, at least 3 each", "compare the mean update (such work is periodic: the median hides it) over the slowest rank"]
-- stop = "the mean update does not improve beyond the spread of the base windows in 3 windows"
-- rollback = "put the skipped work back; then move it off the loop's thread or run it less often, whichever the names say"
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "The loop's thread is busy or blocked for up to {longest_ns} at a time, and the capture does not say with what."
-- change = "record one more window with with_stack=True and a range around each part of the loop (torch.profiler.record_function); change nothing else."
-- kind = "system optimization"
-- invariants = ["everything: this is a measurement"]
-- guards = ["same_work"]
-- measure = ["traceengine analyze NEW_TRACE"]
-- stop = "the stretch has a name"
-- ///
with rank_cost as (select * from class_cost where cause = 'host_other'),
stretch as (
  select rank, step, ts_ns, dur_ns, resource
  from path_part
  where cause = 'host_other'
),
last_optimizer as (
  select steady_step.rank, steady_step.step, max(host_event.ts_ns + host_event.dur_ns) as end_ns
  from steady_step
  inner join host_event
    on
      host_event.rank = steady_step.rank
      and host_event.ts_ns >= steady_step.ts_ns
      and host_event.ts_ns < steady_step.ts_ns + steady_step.dur_ns
  where host_event.class = 'optimizer_step'
  group by steady_step.rank, steady_step.step
),
tail as (
  select last_optimizer.rank, last_optimizer.step, count(*) filter (where host_event.class in ('scalar_read', 'scalar_copy')) as reads,
    count(*) filter (where host_event.class = 'detach') as detaches
  from last_optimizer
  inner join steady_step on steady_step.rank = last_optimizer.rank and steady_step.step = last_optimizer.step
  inner join host_event
    on
      host_event.rank = steady_step.rank
      and host_event.ts_ns >= last_optimizer.end_ns
      and host_event.ts_ns < steady_step.ts_ns + steady_step.dur_ns
  group by last_optimizer.rank, last_optimizer.step
),
stretch_fact as (
  select
    stretch.rank,
    max(stretch.dur_ns) as longest_ns,
    sum(stretch.dur_ns * (stretch.ts_ns >= last_optimizer.end_ns)::bigint) / nullif(sum(stretch.dur_ns), 0) as after_optimizer_share,
    max(tail.reads) as reads,
    max(tail.detaches) filter (where tail.reads = 0) as detaches
  from stretch
  left join last_optimizer on last_optimizer.rank = stretch.rank and last_optimizer.step = stretch.step
  left join tail on tail.rank = stretch.rank and tail.step = stretch.step
  group by stretch.rank
),
collecting as (
  select host_event.rank, sum(host_event.dur_ns) as gc_ns
  from host_event
  inner join steady_step
    on
      steady_step.rank = host_event.rank
      and host_event.ts_ns >= steady_step.ts_ns
      and host_event.ts_ns < steady_step.ts_ns + steady_step.dur_ns
  where host_event.class = 'gc'
  group by host_event.rank
),
-- A call of the operating system and a stretch overlap when the later one starts inside the other.
os_event as (
  select rank, 'host:' || pid || '/' || tid as resource, name, ts_ns, ts_ns + dur_ns as end_ns from host_event where kind = 'os' and dur_ns > 0
),
os_part as (
  select os_event.rank, os_event.name, least(os_event.end_ns, stretch.ts_ns + stretch.dur_ns) - os_event.ts_ns as inside_ns
  from os_event
  asof join stretch on stretch.rank = os_event.rank and stretch.resource = os_event.resource and os_event.ts_ns >= stretch.ts_ns
  where os_event.ts_ns < stretch.ts_ns + stretch.dur_ns
  union all
  select stretch.rank, os_event.name, least(os_event.end_ns, stretch.ts_ns + stretch.dur_ns) - stretch.ts_ns as inside_ns
  from stretch
  asof join os_event on os_event.rank = stretch.rank and os_event.resource = stretch.resource and stretch.ts_ns > os_event.ts_ns
  where stretch.ts_ns < os_event.end_ns
),
os_fact as (
  select rank, arg_max(name, spent) as os_call, sum(spent) as os_ns
  from (select rank, name, sum(inside_ns) as spent from os_part group by rank, name)
  group by rank
),
scope as (
  select rank, arg_max(scope, spent) as top_scope
  from (select rank, scope, sum(dur_ns) as spent from path_part where cause = 'host_other' and scope is not null group by rank, scope)
  group by rank
),
total as (select rank, sum(dur_ns) as dur_ns from stretch group by rank),
holds as (select rank, bool_or(kind = 'python') as stacks, bool_or(kind = 'os') as os_records from host_event group by rank)
select
  rank_cost.rank,
  null::bigint as step,
  case when rank_cost.cost_share >= $min_share then 'hit' else 'clear' end as status,
  rank_cost.cost_ns,
  case
    when rank_cost.cost_share >= $min_share then 'the loop''s thread is busy or blocked and no event says with what'
    else 'no long stretch without an event is exposed'
  end as reason,
  rank_cost.cost_share as share,
  rank_cost.per_step_ns,
  rank_cost.path_per_step_ns,
  rank_cost.steps_hit,
  stretch_fact.longest_ns::bigint as longest_ns,
  stretch_fact.after_optimizer_share,
  case
    when coalesce(stretch_fact.after_optimizer_share, 0) < $mostly then null
    when stretch_fact.reads >= $burst then 'scalar reads beside the stretch after the optimizer: logging'
    when stretch_fact.detaches > 0 then 'one detach per tensor and no scalar read after the optimizer: saving state'
    else 'after the optimizer: saving, logging or garbage collection'
  end as hint,
  case when holds.stacks then coalesce(collecting.gc_ns, 0) // greatest(rank_cost.steps, 1) end::bigint as gc_ns,
  case when holds.stacks and total.dur_ns > 0 then least(1, coalesce(collecting.gc_ns, 0) / total.dur_ns) end::double as gc_share,
  os_fact.os_call,
  case when holds.os_records and total.dur_ns > 0 then least(1, coalesce(os_fact.os_ns, 0) / total.dur_ns) end::double as os_share,
  scope.top_scope,
  null::varchar as not_advised
from rank_cost
left join stretch_fact on stretch_fact.rank = rank_cost.rank
left join collecting on collecting.rank = rank_cost.rank
left join os_fact on os_fact.rank = rank_cost.rank
left join scope on scope.rank = rank_cost.rank
left join total on total.rank = rank_cost.rank
left join holds on holds.rank = rank_cost.rank
