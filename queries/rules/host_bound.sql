-- /// rule
-- title = "The device starves for launches"
-- bottleneck = "host_bound"
-- needs = ["step_cause"]
-- why = "The device is idle because Python, dispatch and launches deliver work late; on a capture without device work, dispatch instead of arithmetic."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
-- short_ns = { default = 10000, unit = "ns", doc = "A kernel this short costs the host about as much to launch as it takes to run." }
-- event_cost_ns = { default = 1000, unit = "ns", doc = "Recording one host event costs 0.6 to 2.1 µs on the recording thread." }
-- mostly = { default = 0.5, unit = "share", doc = "From this share on most kernels are short." }
-- many_breaks = { default = 1.5, doc = "From so many graph breaks a step on, Python runs between compiled parts." }
-- large_optimizer = { default = 0.3, unit = "share", doc = "From this share of the step on, the optimizer's own calls come first." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- kernels_per_step = { type = "double", doc = "Kernels per step." }
-- short_share = { type = "double", unit = "share", doc = "Share of the kernels that are short." }
-- ops_per_step = { type = "double", doc = "Operators per step." }
-- launches_per_step = { type = "double", doc = "Kernel and graph launches per step; NULL without device work." }
-- queue_depth = { type = "double", doc = "Mean number of launched operations that wait for the device: below 1 the device waits for the host; NULL without links." }
-- optimizer_share = { type = "double", unit = "share", doc = "Share of the steady steps inside the optimizer's step on the host; NULL when no range or hook shows it." }
-- graph_breaks_per_step = { type = "double", doc = "Compiled regions per step beyond the first: each break ends one; NULL without regions." }
-- top_op = { type = "varchar", doc = "Operator that is called most." }
-- top_detail = { type = "varchar", doc = "What the loop's thread did most of the time." }
-- compiled = { type = "boolean", doc = "A compiled region or a graph launch is in the capture." }
-- foreach = { type = "boolean", doc = "The optimizer uses operators over lists of tensors, or one fused operator." }
-- launch_ns = { type = "bigint", unit = "ns", doc = "Time of the launching calls per step, hidden or not." }
-- profiler_share = { type = "double", unit = "share", doc = "Estimated share of the steady steps that recording the loop thread's host events took." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "optimizer_share >= large_optimizer and not foreach"
-- hypothesis = "{optimizer_share} of the step is the optimizer on the host, with operators per tensor; one call per list of tensors does the same update."
-- change = "construct the optimizer with fused=True where it has it, else foreach=True; nothing else."
-- kind = "system optimization"
-- guards = ["update_parity", "warm_up_excluded", "peak_memory"]
--
-- [[experiment]]
-- when = "not compiled and short_share >= mostly"
-- hypothesis = "{kernels_per_step} kernels a step, {short_share} of them short: the host needs longer to issue them than the device to run them. One compiled graph issues them together."
-- change = "torch.compile(model) on stable shapes (mode='reduce-overhead' for CUDA graphs); nothing else."
-- kind = "system optimization"
-- guards = ["forward_parity", "backward_parity", "update_parity", "warm_up_excluded", "static_input_lifetime"]
--
-- [[experiment]]
-- when = "compiled and graph_breaks_per_step >= many_breaks"
-- hypothesis = "The compiled code is left {graph_breaks_per_step} times a step: Python and guards run between the parts."
-- change = "remove the graph breaks that TORCH_LOGS=graph_breaks names (most often .item(), print or data-dependent branches in forward), one kind at a time; compile settings stay."
-- kind = "system optimization"
-- guards = ["forward_parity", "backward_parity", "update_parity", "warm_up_excluded"]
--
-- [[experiment]]
-- when = "compiled and short_share is not null"
-- hypothesis = "Work is compiled already and still issued late; a CUDA graph replays a step's launches as one."
-- change = "capture the compiled part as a CUDA graph (torch.compile mode='reduce-overhead', or torch.cuda.graphs on static shapes)."
-- kind = "system optimization"
-- guards = ["forward_parity", "update_parity", "static_input_lifetime", "host_memory"]
--
-- [[experiment]]
-- when = "not compiled and ops_per_step > 0"
-- hypothesis = "Python and dispatch of {ops_per_step} operators a step take {per_step_ns}; compiled together, most of that goes."
-- change = "torch.compile(model) on stable shapes; nothing else."
-- kind = "system optimization"
-- guards = ["forward_parity", "backward_parity", "update_parity", "warm_up_excluded"]
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "The host needs {per_step_ns} a step of its own, whatever the batch; a larger microbatch gives it fewer of them per sample."
-- change = "double the microbatch and halve the accumulation steps, so that the global batch stays (without accumulation the global batch doubles: a training change, to be declared as one); nothing else."
-- kind = "training change"
-- guards = ["global_scaling", "peak_memory", "loss_curve"]
-- measure = ["profiler off; 5 warm-up steps; windows of 20 whole optimizer updates of both variants taking turns, at least 3 each", "compare samples per second over the slowest rank, and peak memory", "then one short profiled window of the changed variant: traceengine analyze NEW_TRACE"]
-- ///
with rank_cost as (select * from class_cost where cause = 'host_bound'),
kernel as (
  select rank, count(*) as kernels, avg((busy_dur_ns < $short_ns)::int) as short_share
  from device_event
  where kind = 'kernel'
  group by rank
),
-- Little's law: the mean number that wait is the sum of their waits by the time.
queue as (
  select
    device_event.rank,
    sum(greatest(device_event.ts_ns - call.ts_ns - coalesce(call.dur_ns, 0), 0))
    / nullif(max(device_event.ts_ns + device_event.busy_dur_ns) - min(device_event.ts_ns), 0) as queue_depth
  from device_event
  inner join host_event as call on call.rank = device_event.rank and call.event_id = device_event.launch_id
  group by device_event.rank
),
host as (
  select
    rank,
    count(*) filter (where kind = 'op') as ops,
    coalesce(bool_or(class in ('compiled_region', 'compiled_graph', 'compiled_lookup', 'graph_launch')), false) as compiled,
    coalesce(bool_or(class in ('foreach_op', 'fused_op')), false) as listed,
    count(*) filter (where class = 'compiled_region') as regions,
    count(*) filter (where class in ('launch', 'graph_launch')) as launches,
    sum(dur_ns) filter (where class in ('launch', 'graph_launch')) as launch_ns
  from host_event
  group by rank
),
optimizer as (
  select host_event.rank, sum(host_event.dur_ns) as spent_ns
  from host_event
  inner join steady_step
    on
      steady_step.rank = host_event.rank
      and host_event.ts_ns >= steady_step.ts_ns
      and host_event.ts_ns < steady_step.ts_ns + steady_step.dur_ns
  where host_event.class = 'optimizer_step' and host_event.kind <> 'python'
  group by host_event.rank
),
top_op as (
  select rank, arg_max(name, calls) as top_op
  from (select rank, name, count(*) as calls from host_event where kind = 'op' group by rank, name)
  group by rank
),
top as (
  select rank, arg_max(detail, spent) as top_detail
  from (select rank, detail, sum(dur_ns) as spent from path_part where cause = 'host_bound' group by rank, detail)
  group by rank
),
recorded as (
  select host_event.rank, count(*) as events
  from host_event
  inner join steady_step
    on
      steady_step.rank = host_event.rank
      and host_event.ts_ns >= steady_step.ts_ns
      and host_event.ts_ns < steady_step.ts_ns + steady_step.dur_ns
  inner join thread
    on thread.rank = host_event.rank and thread.pid = host_event.pid and thread.tid = host_event.tid and thread.role = 'main'
  group by host_event.rank
),
steady_time as (select rank, sum(dur_ns) as dur_ns from steady_step group by rank),
all_steps as (select rank, count(*) as steps from step group by rank)
select
  rank_cost.rank,
  null::bigint as step,
  case when rank_cost.cost_share >= $min_share then 'hit' else 'clear' end as status,
  rank_cost.cost_ns,
  case
    when rank_cost.cost_share >= $min_share and kernel.kernels > 0 then 'the device is idle while the host prepares and launches'
    when rank_cost.cost_share >= $min_share then 'dispatch and Python take the time, and no operator does'
    when rank_cost.path_per_step_ns > 2 * rank_cost.per_step_ns then 'the host is busy, but device work hides it'
    else 'the host keeps ahead'
  end as reason,
  rank_cost.cost_share as share,
  rank_cost.per_step_ns,
  rank_cost.path_per_step_ns,
  rank_cost.steps_hit,
  kernel.kernels / nullif(all_steps.steps, 0)::double as kernels_per_step,
  kernel.short_share,
  host.ops / nullif(all_steps.steps, 0)::double as ops_per_step,
  case when host.launches > 0 then host.launches / nullif(all_steps.steps, 0) end::double as launches_per_step,
  queue.queue_depth::double as queue_depth,
  (optimizer.spent_ns / nullif(steady_time.dur_ns, 0))::double as optimizer_share,
  case when host.regions > 0 and all_steps.steps > 0 then greatest(0, host.regions / all_steps.steps - 1) end::double as graph_breaks_per_step,
  top_op.top_op,
  top.top_detail,
  host.compiled,
  host.listed as foreach,
  (host.launch_ns // nullif(all_steps.steps, 0))::bigint as launch_ns,
  -- least() would take 1 for an unknown share.
  case when steady_time.dur_ns > 0 then least(1, recorded.events * $event_cost_ns / steady_time.dur_ns) end::double as profiler_share,
  case
    when rank_cost.cost_share < $min_share and rank_cost.path_per_step_ns > 2 * rank_cost.per_step_ns then 'CUDA graphs or fewer launches: the host''s time is hidden behind device work'
    when rank_cost.cost_share < $min_share and kernel.short_share >= $mostly then 'CUDA graphs or fewer launches: kernels are short, but the launches keep ahead'
  end as not_advised
from rank_cost
left join kernel on kernel.rank = rank_cost.rank
left join queue on queue.rank = rank_cost.rank
left join host on host.rank = rank_cost.rank
left join optimizer on optimizer.rank = rank_cost.rank
left join top_op on top_op.rank = rank_cost.rank
left join top on top.rank = rank_cost.rank
left join all_steps on all_steps.rank = rank_cost.rank
left join recorded on recorded.rank = rank_cost.rank
left join steady_time on steady_time.rank = rank_cost.rank
