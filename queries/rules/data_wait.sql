-- /// rule
-- title = "The loop waits for the next batch"
-- bottleneck = "data_wait"
-- needs = ["step_cause"]
-- why = "Wall time in which the loop's thread waits for input, or produces it itself, while the device has nothing to do."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
-- spare = { default = 1.25, doc = "Workers are suggested for this multiple of the measured need: a loader that only just keeps up waits at every hiccup." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- loader = { type = "varchar", doc = "single_process, workers, or range (a range or frame that names.csv marks as loading)." }
-- batches = { type = "bigint", doc = "Loader calls on the path in the steady steps." }
-- load_ns = { type = "bigint", unit = "ns", doc = "Mean duration of a loader call on the loop's thread." }
-- other_ns = { type = "bigint", unit = "ns", doc = "Mean rest of a step: the time in which the loader has to produce the step's batches." }
-- suggested_workers = { type = "bigint", doc = "Smallest number of workers that produce a step's batches in the rest of a step, with spare." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "loader = 'single_process'"
-- hypothesis = "The loop's own process makes each batch ({load_ns}) while nothing else moves; num_workers = {suggested_workers} makes it beside the rest of the step ({other_ns})."
-- change = "DataLoader(num_workers={suggested_workers}, persistent_workers=True); keep dataset, sampler, transforms and batch size."
-- kind = "system optimization"
-- guards = ["sample_coverage", "input_equivalence", "host_memory"]
--
-- [[experiment]]
-- when = "loader = 'workers'"
-- hypothesis = "The workers deliver slower than the rest of the step ({other_ns}) needs."
-- change = "double num_workers (prefetch_factor unchanged, persistent_workers=True); if host cores are used up, cache or pre-decode the samples instead."
-- kind = "system optimization"
-- guards = ["sample_coverage", "input_equivalence", "host_memory"]
--
-- [[experiment]]
-- when = "loader = 'range'"
-- hypothesis = "The loop's thread spends {per_step_ns} a step in ranges marked as loading."
-- change = "fetch the next batch in a background thread or worker one step ahead (a bounded queue of 2); keep the order of batches."
-- kind = "system optimization"
-- guards = ["sample_coverage", "input_equivalence", "host_memory"]
-- ///
with rank_cost as (select * from class_cost where cause = 'data_wait'),
-- Loader calls of the thread on which the path met them: loaders of other threads are not the loop's wait.
loop_thread as (select distinct rank, resource from path_part where cause = 'data_wait' and resource like 'host:%'),
call as (
  select host_event.rank, host_event.class, host_event.dur_ns
  from host_event
  inner join loop_thread
    on loop_thread.rank = host_event.rank and loop_thread.resource = 'host:' || host_event.pid || '/' || host_event.tid
  inner join steady_step
    on
      steady_step.rank = host_event.rank
      and host_event.ts_ns >= steady_step.ts_ns
      and host_event.ts_ns < steady_step.ts_ns + steady_step.dur_ns
  where
    host_event.class in ('data_wait', 'data_wait_single', 'data_wait_workers')
    and host_event.kind <> 'python'
    and host_event.dur_ns is not null
),
loader as (
  select
    rank,
    case
      when bool_or(class = 'data_wait_single') then 'single_process'
      when bool_or(class = 'data_wait_workers') then 'workers'
      else 'range'
    end as loader,
    count(*) as batches,
    avg(dur_ns) as load_ns
  from call
  group by rank
),
framed as (
  select distinct rank, 'range' as loader
  from path_part
  where cause = 'data_wait'
),
fact as (
  select
    rank_cost.*,
    coalesce(loader.loader, framed.loader) as loader,
    loader.batches,
    loader.load_ns::bigint as load_ns,
    case when rank_cost.steps > 0 then ((select avg(dur_ns) from steady_step where steady_step.rank = rank_cost.rank) - rank_cost.path_per_step_ns)::bigint end
      as other_ns
  from rank_cost
  left join loader on loader.rank = rank_cost.rank
  left join framed on framed.rank = rank_cost.rank
)
select
  rank,
  null::bigint as step,
  case when cost_share >= $min_share then 'hit' else 'clear' end as status,
  cost_ns,
  case
    when loader is null then 'no loader call or range on the loop''s thread is on the path'
    when cost_share < $min_share and path_per_step_ns > 2 * per_step_ns then 'the loader''s wait is hidden behind device work'
    when cost_share < $min_share then 'the loader keeps up'
    else 'the loop''s thread waits for input (' || loader || ')'
  end as reason,
  cost_share as share,
  per_step_ns,
  path_per_step_ns,
  steps_hit,
  loader,
  batches::bigint as batches,
  load_ns,
  other_ns,
  case when loader = 'single_process' then greatest(1, ceil($spare * load_ns * greatest(batches / steps, 1) / greatest(other_ns, 1000000)))::bigint end as suggested_workers,
  case
    when cost_share < $min_share and loader = 'workers' then 
      'more loader workers: the loader''s wait is exposed for less than ' || round(100 * $min_share)::bigint || ' % of the time'
    when cost_share < $min_share and loader = 'single_process' then 
      'loader workers: the single-process loader is exposed for less than ' || round(100 * $min_share)::bigint || ' % of the time'
  end as not_advised
from fact
