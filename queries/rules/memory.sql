-- /// rule
-- title = "Device memory is allocated in steady steps"
-- bottleneck = "memory"
-- needs = ["step_cause"]
-- why = "cudaMalloc, cudaFree and their like in steady steps: a cache that does not fit, or retries; cudaFree waits for the whole device."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
-- full_share = { default = 0.9, unit = "share", doc = "A device whose memory is reserved to more than this is full: the allocator gives blocks back and asks again." }
-- fragmented_share = { default = 0.2, unit = "share", doc = "From this share of reserved memory that is never in use at once on, blocks of the wrong size are what fails." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- calls = { type = "bigint", doc = "Allocating and releasing calls in the steady steps." }
-- calls_ns = { type = "bigint", unit = "ns", doc = "Time that the host spent in them." }
-- frees = { type = "bigint", doc = "The releasing ones: in steady steps the allocator makes them when it retries, or on empty_cache." }
-- empty_caches = { type = "bigint", doc = "Calls of empty_cache in the steady steps; NULL without stacks." }
-- reserved_share = { type = "double", unit = "share", doc = "Most reserved memory as a share of the device's; NULL when either is not known." }
-- fragmentation_share = { type = "double", unit = "share", doc = "Part of it that was never in use at once; NULL without allocator events." }
-- peak_reserved_bytes = { type = "bigint", unit = "bytes", doc = "Most reserved memory; NULL without allocator events." }
-- recompute_share = { type = "double", unit = "share", doc = "Share of the backward pass that computes the forward again; NULL without backward nodes." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "empty_caches > 0"
-- hypothesis = "empty_cache() runs {empty_caches} times in steady steps: it gives memory back that the next step asks for again ({calls} calls of the driver, {calls_ns})."
-- change = "remove torch.cuda.empty_cache() from the loop; nothing else."
-- kind = "system optimization"
-- guards = ["peak_memory", "loss_curve"]
--
-- [[experiment]]
-- when = "reserved_share >= full_share and coalesce(fragmentation_share, 0) < fragmented_share"
-- hypothesis = "{reserved_share} of the device's memory is reserved and in use: the allocator gives blocks back and asks again ({frees} releases in steady steps). Less at the peak ends that."
-- change = "recompute the activations of every second block (torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)); batch size stays."
-- kind = "system optimization"
-- guards = ["rng_state_under_recompute", "update_parity", "peak_memory", "end_to_end_cost"]
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "{calls} driver allocations in steady steps cost {per_step_ns} a step; {fragmentation_share} of the reserved memory is never in use at once."
-- change = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and no empty_cache() inside the loop; nothing else."
-- kind = "system optimization"
-- guards = ["peak_memory", "loss_curve"]
-- ///
with rank_cost as (select * from class_cost where cause = 'memory'),
calls as (
  select
    host_event.rank,
    count(*) filter (where host_event.class <> 'empty_cache') as calls,
    sum(host_event.dur_ns) filter (where host_event.class <> 'empty_cache') as calls_ns,
    count(*) filter (where host_event.class = 'free_call') as frees,
    count(*) filter (where host_event.class = 'empty_cache') as empty_caches
  from host_event
  inner join steady_step
    on
      steady_step.rank = host_event.rank
      and host_event.ts_ns >= steady_step.ts_ns
      and host_event.ts_ns < steady_step.ts_ns + steady_step.dur_ns
  where host_event.class in ('alloc_call', 'free_call', 'empty_cache')
  group by host_event.rank
),
stacks as (select distinct rank from host_event where kind = 'python')
select
  rank_cost.rank,
  null::bigint as step,
  case when rank_cost.cost_share >= $min_share then 'hit' else 'clear' end as status,
  rank_cost.cost_ns,
  case when rank_cost.cost_share >= $min_share then 'the driver allocates or frees memory in steady steps' else 'no exposed allocation in steady steps' end as reason,
  rank_cost.cost_share as share,
  rank_cost.per_step_ns,
  rank_cost.path_per_step_ns,
  rank_cost.steps_hit,
  coalesce(calls.calls, 0)::bigint as calls,
  coalesce(calls.calls_ns, 0)::bigint as calls_ns,
  coalesce(calls.frees, 0)::bigint as frees,
  case when stacks.rank is not null then coalesce(calls.empty_caches, 0) end::bigint as empty_caches,
  memory_pressure.peak_reserved_bytes / nullif(memory_pressure.capacity_bytes, 0) as reserved_share,
  memory_pressure.fragmentation_share,
  memory_pressure.peak_reserved_bytes,
  memory_pressure.recompute_share,
  null::varchar as not_advised
from rank_cost
left join memory_pressure on memory_pressure.rank = rank_cost.rank
left join calls on calls.rank = rank_cost.rank
left join stacks on stacks.rank = rank_cost.rank
