-- /// rule
-- title = "Synchronisation exposes idle time"
-- bottleneck = "sync"
-- needs = ["step_cause"]
-- why = "Synchronising calls whose cost is not the wait for device work, which would be waited for anyway, but what follows or what they keep waiting without work."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- calls_per_step = { type = "double", doc = "Synchronising calls per step." }
-- top_call = { type = "varchar", doc = "Synchronising call with most of the time on the path." }
-- top_scope = { type = "varchar", doc = "Range or frame around most of that time: where it is called; NULL without ranges and stacks." }
-- host_wait_ns = { type = "bigint", unit = "ns", doc = "Time per step that the host spends in them, hidden or not." }
-- device_calls_per_step = { type = "double", doc = "Those of them that wait for the whole device." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "device_calls_per_step >= 1"
-- hypothesis = "{calls_per_step} synchronising calls a step cost {per_step_ns} of exposed time; {device_calls_per_step} of them wait for the whole device (in {top_scope})."
-- change = "remove torch.cuda.synchronize() from the loop (timers: record two torch.cuda.Event(enable_timing=True) and read elapsed_time a step later)."
-- kind = "system optimization"
-- guards = ["value_semantics", "stream_lifetime"]
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "{calls_per_step} synchronising calls a step cost {per_step_ns} of exposed time, mostly {top_call} (in {top_scope})."
-- change = "remove the explicit synchronisation (or make it an event that only the consumer waits for: stream.wait_event instead of event.synchronize)."
-- kind = "system optimization"
-- guards = ["value_semantics", "stream_lifetime"]
-- ///
with rank_cost as (select * from class_cost where cause = 'sync'),
judged as (
  select rank, count(*) as steps, min(ts_ns) as from_ns, max(ts_ns + dur_ns) as until_ns from step where complete group by rank
),
-- Of a call that crosses the edge of the steps only the part within them counts; without steps everything counts.
part as (
  select
    host_event.rank,
    host_event.class,
    judged.steps,
    least(host_event.ts_ns + host_event.dur_ns, coalesce(judged.until_ns, host_event.ts_ns + host_event.dur_ns))
    - greatest(host_event.ts_ns, coalesce(judged.from_ns, host_event.ts_ns)) as inside_ns
  from host_event
  left join judged on judged.rank = host_event.rank
  where host_event.class in ('device_sync', 'stream_sync', 'event_sync')
),
calls as (
  select
    rank, any_value(steps) as steps, count(*) filter (where inside_ns >= 0) as calls,
    count(*) filter (where inside_ns >= 0 and class = 'device_sync') as device_calls, sum(greatest(inside_ns, 0)) as host_wait_ns
  from part
  group by rank
),
top as (
  select rank, arg_max(detail, spent) as top_call
  from (select rank, detail, sum(dur_ns) as spent from path_part where cause = 'sync' group by rank, detail)
  group by rank
),
scope as (
  select rank, arg_max(scope, spent) as top_scope
  from (select rank, scope, sum(dur_ns) as spent from path_part where cause = 'sync' and scope is not null group by rank, scope)
  group by rank
)
select
  rank_cost.rank,
  null::bigint as step,
  case when rank_cost.cost_share >= $min_share then 'hit' else 'clear' end as status,
  rank_cost.cost_ns,
  case
    when rank_cost.cost_share >= $min_share then 'synchronising calls cost time of their own'
    when calls.calls > 0 then 'the synchronising calls only wait for device work'
    else 'no synchronising call in the steps'
  end as reason,
  rank_cost.cost_share as share,
  rank_cost.per_step_ns,
  rank_cost.path_per_step_ns,
  rank_cost.steps_hit,
  calls.calls / calls.steps::double as calls_per_step,
  top.top_call,
  scope.top_scope,
  (calls.host_wait_ns // coalesce(calls.steps, 1))::bigint as host_wait_ns,
  calls.device_calls / calls.steps::double as device_calls_per_step,
  case when rank_cost.cost_share < $min_share and calls.calls > 0 then 'removing synchronisation: the calls only wait for device work' end as not_advised
from rank_cost
left join calls on calls.rank = rank_cost.rank
left join top on top.rank = rank_cost.rank
left join scope on scope.rank = rank_cost.rank
