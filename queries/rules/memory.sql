-- /// rule
-- title = "Device memory is allocated in steady steps"
-- bottleneck = "memory"
-- needs = ["step_cause"]
-- why = "cudaMalloc, cudaFree and their like in steady steps: a cache that does not fit, or retries; cudaFree waits for the whole device."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- calls = { type = "bigint", doc = "Allocating and releasing calls in the steady steps." }
-- calls_ns = { type = "bigint", unit = "ns", doc = "Time that the host spent in them." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "{calls} driver allocations in steady steps cost {per_step_ns} a step."
-- change = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and no empty_cache() inside the loop; nothing else."
-- kind = "system optimization"
-- guards = ["peak_memory", "loss_curve"]
-- ///
with rank_cost as (select * from class_cost where cause = 'memory'),
calls as (
  select host_event.rank, count(*) as calls, sum(host_event.dur_ns) as calls_ns
  from host_event
  inner join steady_step
    on
      steady_step.rank = host_event.rank
      and host_event.ts_ns >= steady_step.ts_ns
      and host_event.ts_ns < steady_step.ts_ns + steady_step.dur_ns
  where host_event.class in ('alloc_call', 'free_call')
  group by host_event.rank
)
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
  null::varchar as not_advised
from rank_cost
left join calls on calls.rank = rank_cost.rank
