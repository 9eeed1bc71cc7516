-- /// rule
-- title = "The loop waits for the next batch"
-- bottleneck = "data_wait"
-- needs = ["step_cause"]
-- why = "Wall time in which the loop's thread waits for input, or produces it itself, while the device has nothing to do."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
-- waiting_share = { default = 0.05, unit = "share", doc = "A step waits for data when more than this share of it is such waiting." }
-- spare = { default = 1.25, doc = "Workers are suggested for this multiple of the measured need: a loader that only just keeps up waits at every hiccup." }
-- most_workers = { default = 16, doc = "More workers for one rank seldom have cores of their own." }
-- most_factor = { default = 4, doc = "Beyond this many times the workers of now, cheaper samples are the nearer way." }
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
-- suggested_workers = { type = "bigint", doc = "Smallest number of workers that produce a step's batches in the rest of a step, with spare.", state = "estimated" }
-- worker_factor = { type = "bigint", doc = "So many times the workers of now deliver a step's batches in the rest of a step, with spare; NULL without workers.", state = "estimated" }
-- waiting_steps = { type = "bigint", doc = "Steady steps that wait for data; NULL without steps." }
-- batch_interval_ns = { type = "bigint", unit = "ns", doc = "Mean time from one loader call to the next: while the loop waits, what the workers need for a batch together." }
-- workers = { type = "bigint", doc = "Loader threads and processes in the capture; NULL when it holds none (most hold the loop's process alone)." }
-- worker_busy_share = { type = "double", unit = "share", doc = "Share of the window in which these have an event open, mean over them; NULL when the capture holds none." }
-- recurs = { type = "boolean", doc = "The wait is no single event: more than one step has it, or there is no other step to compare with." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "loader = 'single_process' and recurs"
-- hypothesis = "The loop's own process makes each batch ({load_ns}) while nothing else moves; num_workers = {suggested_workers} makes it beside the rest of the step ({other_ns})."
-- change = "DataLoader(num_workers={suggested_workers}, persistent_workers=True); keep dataset, sampler, transforms and batch size."
-- kind = "system optimization"
-- guards = ["sample_coverage", "input_equivalence", "host_memory"]
--
-- [[experiment]]
-- when = "loader = 'workers' and recurs and worker_factor <= most_factor"
-- hypothesis = "A batch comes every {batch_interval_ns}; the rest of a step takes {other_ns}. {worker_factor} times the workers would deliver in time, while host cores last."
-- change = "num_workers = {worker_factor} times its value of now, persistent_workers=True, prefetch_factor as it is; keep dataset, sampler, transforms and batch size."
-- kind = "system optimization"
-- guards = ["sample_coverage", "input_equivalence", "host_memory"]
-- stop = "the median update does not improve beyond the spread of the base windows in 3 windows, a guard fails, or all host cores are busy (then make samples cheaper instead)"
--
-- [[experiment]]
-- when = "loader = 'workers' and recurs"
-- hypothesis = "A batch comes every {batch_interval_ns}, but the rest of a step takes only {other_ns}: {worker_factor} times the workers would be needed, so each sample must cost less."
-- change = "decode and resize once and store the result (same pixels or tokens as now), and read that in __getitem__; keep random augmentation, sampler, workers and batch size."
-- kind = "system optimization"
-- guards = ["sample_coverage", "input_equivalence", "host_memory"]
--
-- [[experiment]]
-- when = "loader = 'range' and recurs"
-- hypothesis = "The loop's thread spends {per_step_ns} a step in ranges marked as loading."
-- change = "fetch the next batch in a background thread or worker one step ahead (a bounded queue of 2); keep the order of batches."
-- kind = "system optimization"
-- guards = ["sample_coverage", "input_equivalence", "host_memory"]
--
-- [[experiment]]
-- when = "loader = 'workers'"
-- hypothesis = "One step alone waits for the workers, as after a restart of the loader at the end of an epoch."
-- change = "DataLoader(persistent_workers=True), and no new DataLoader inside the loop; num_workers stays."
-- kind = "system optimization"
-- guards = ["sample_coverage", "host_memory"]
-- measure = ["profiler off; 3 whole epochs of both variants taking turns", "compare the time of an epoch and of its first step"]
-- stop = "the first step of an epoch does not get shorter"
-- ///
with rank_cost as (select * from class_cost where cause = 'data_wait'),
-- Loader calls of the thread on which the path met them: loaders of other threads are not the loop's wait.
loop_thread as (select distinct rank, resource from path_part where cause = 'data_wait' and resource like 'host:%'),
call as (
  select host_event.rank, host_event.class, host_event.ts_ns, host_event.dur_ns
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
    avg(dur_ns) as load_ns,
    (max(ts_ns) - min(ts_ns)) / nullif(count(*) - 1, 0) as batch_interval_ns
  from call
  group by rank
),
framed as (
  select distinct rank, 'range' as loader
  from path_part
  where cause = 'data_wait'
),
waiting as (
  select steady_step.rank, count(*) filter (where step_cause.exclusive_ns > $waiting_share * steady_step.dur_ns) as waiting_steps
  from steady_step
  left join step_cause
    on step_cause.rank = steady_step.rank and step_cause.step = steady_step.step and step_cause.cause = 'data_wait'
  group by steady_step.rank
),
worker as (
  select host_event.rank, host_event.pid, host_event.tid, sum(host_event.dur_ns) as busy_ns
  from host_event
  inner join thread
    on thread.rank = host_event.rank and thread.pid = host_event.pid and thread.tid = host_event.tid and thread.role = 'loader'
  where coalesce(host_event.depth, 0) = 0 and host_event.kind not in ('marker', 'overhead')
  group by host_event.rank, host_event.pid, host_event.tid
),
path_window as (select rank, sum(dur_ns) as dur_ns from critical_path group by rank),
pool as (
  select worker.rank, count(*) as workers, least(1, avg(worker.busy_ns) / nullif(any_value(path_window.dur_ns), 0)) as busy_share
  from worker
  inner join path_window on path_window.rank = worker.rank
  group by worker.rank
),
mean_step as (select rank, avg(dur_ns) as dur_ns from steady_step group by rank),
fact as (
  select
    rank_cost.*,
    coalesce(loader.loader, framed.loader) as loader,
    loader.batches,
    loader.load_ns::bigint as load_ns,
    loader.batch_interval_ns::bigint as batch_interval_ns,
    waiting.waiting_steps,
    pool.workers,
    pool.busy_share,
    rank_cost.steps <= 1 or waiting.waiting_steps > 1 as recurs,
    greatest(loader.batches / nullif(rank_cost.steps, 0), 1) as batches_per_step,
    (mean_step.dur_ns - rank_cost.path_per_step_ns)::bigint as other_ns
  from rank_cost
  left join loader on loader.rank = rank_cost.rank
  left join framed on framed.rank = rank_cost.rank
  left join waiting on waiting.rank = rank_cost.rank
  left join pool on pool.rank = rank_cost.rank
  left join mean_step on mean_step.rank = rank_cost.rank
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
  case when loader = 'single_process' then
    least($most_workers, greatest(1, ceil($spare * load_ns * batches_per_step / greatest(other_ns, 1000000))))
  end::bigint as suggested_workers,
  case when loader = 'workers' then
    greatest(2, ceil($spare * batch_interval_ns * batches_per_step / greatest(other_ns, 1000000)))
  end::bigint as worker_factor,
  waiting_steps::bigint as waiting_steps,
  batch_interval_ns,
  workers::bigint as workers,
  busy_share::double as worker_busy_share,
  recurs,
  case
    when cost_share < $min_share and loader = 'workers' then
      'more loader workers: the loader''s wait is exposed for less than ' || round(100 * $min_share)::bigint || ' % of the time'
    when cost_share < $min_share and loader = 'single_process' then
      'loader workers: the single-process loader is exposed for less than ' || round(100 * $min_share)::bigint || ' % of the time'
    when not recurs and loader = 'single_process' then
      'loader workers: one of ' || steps || ' steps waits for the loader, which shows no rate'
  end as not_advised
from fact
