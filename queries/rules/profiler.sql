-- /// rule
-- title = "The profiler itself takes the time"
-- bottleneck = "profiler"
-- needs = ["step_cause"]
-- why = "Buffer flushes and other work of the recorder on the path: it is not in the loop that runs without it, so figures of this capture overstate the host."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
-- many_frames = { default = 0.2, unit = "share", doc = "From this share of Python frames on, leaving out the stacks is the largest saving." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- records = { type = "bigint", doc = "Records of the profiler's own work in the steady steps." }
-- records_ns = { type = "bigint", unit = "ns", doc = "Their time, hidden or not." }
-- top_record = { type = "varchar", doc = "Kind of record with the most time." }
-- events_per_step = { type = "double", doc = "Host events that were recorded per step." }
-- frames_share = { type = "double", unit = "share", doc = "Share of them that are Python frames." }
-- source = { type = "varchar", doc = "Kind of source: torch or nsys." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
--
-- [[experiment]]
-- when = "frames_share > many_frames"
-- hypothesis = "Recording takes {per_step_ns} a step, and {frames_share} of {events_per_step} events a step are Python frames."
-- change = "record the same window again with with_stack=False (record_shapes and profile_memory off, too); leave the loop as it is."
-- kind = "system optimization"
-- invariants = ["everything: this is a measurement"]
-- guards = ["same_work"]
-- measure = ["traceengine analyze NEW_TRACE", "compare the time of a step with one measured without any profiler"]
-- stop = "the profiler's share is below 5 %"
-- rollback = "nothing to undo: only the recording changed"
--
-- [[experiment]]
-- when = "source = 'nsys'"
-- hypothesis = "Recording takes {per_step_ns} a step, mostly {top_record}."
-- change = "record fewer kinds of events (nsys profile -t cuda,nvtx, no --sample and no --backtrace) over fewer steps; leave the loop as it is."
-- kind = "system optimization"
-- invariants = ["everything: this is a measurement"]
-- guards = ["same_work"]
-- measure = ["traceengine analyze NEW_TRACE", "compare the time of a step with one measured without any profiler"]
-- stop = "the profiler's share is below 5 %"
-- rollback = "nothing to undo: only the recording changed"
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "Recording takes {per_step_ns} a step, mostly {top_record}."
-- change = "record fewer active steps (schedule(wait=1, warmup=1, active=3)), so that buffers are flushed after the window; leave the loop as it is."
-- kind = "system optimization"
-- invariants = ["everything: this is a measurement"]
-- guards = ["same_work"]
-- measure = ["traceengine analyze NEW_TRACE", "compare the time of a step with one measured without any profiler"]
-- stop = "the profiler's share is below 5 %"
-- rollback = "nothing to undo: only the recording changed"
-- ///
with rank_cost as (select * from class_cost where cause = 'profiler'),
event as (
  select host_event.rank, host_event.class, host_event.kind, host_event.name, host_event.dur_ns
  from host_event
  asof join steady_step on steady_step.rank = host_event.rank and host_event.ts_ns >= steady_step.ts_ns
  where host_event.ts_ns < steady_step.ts_ns + steady_step.dur_ns
),
fact as (
  select
    rank,
    count(*) filter (where class = 'profiler_cost') as records,
    sum(dur_ns) filter (where class = 'profiler_cost') as records_ns,
    count(*) filter (where kind <> 'marker') as events,
    count(*) filter (where kind = 'python') as frames
  from event
  group by rank
),
top as (
  select rank, arg_max(name, spent) as top_record
  from (select rank, name, sum(dur_ns) as spent from event where class = 'profiler_cost' group by rank, name)
  group by rank
),
origin as (select rank, any_value(kind) as source from source group by rank)
select
  rank_cost.rank,
  null::bigint as step,
  case when rank_cost.cost_share >= $min_share then 'hit' else 'clear' end as status,
  rank_cost.cost_ns,
  case
    when rank_cost.cost_share >= $min_share then 'the recorder works on the loop''s time'
    when fact.records > 0 then 'the recorder''s work costs little, or is hidden'
    else 'no record of the profiler''s own work'
  end as reason,
  rank_cost.cost_share as share,
  rank_cost.per_step_ns,
  rank_cost.path_per_step_ns,
  rank_cost.steps_hit,
  fact.records::bigint as records,
  fact.records_ns::bigint as records_ns,
  top.top_record,
  fact.events / nullif(rank_cost.steps, 0)::double as events_per_step,
  fact.frames / nullif(fact.events, 0)::double as frames_share,
  origin.source,
  null::varchar as not_advised
from rank_cost
left join fact on fact.rank = rank_cost.rank
left join top on top.rank = rank_cost.rank
left join origin on origin.rank = rank_cost.rank
