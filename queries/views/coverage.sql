-- /// view
-- sentence = "Whether the capture holds the device work of each step: launches with and without it. Read it before any idle time."
-- needs = ["host_event", "device_event", "step", "launch", "_step_host"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- step = { type = "bigint", doc = "Step; NULL for what lies outside all steps." }
-- complete = { type = "boolean", doc = "False when the capture cuts the step; NULL outside all steps." }
-- launches = { type = "bigint", doc = "Kernel and graph launches in the step." }
-- launches_without_device_event = { type = "bigint", doc = "Those of them whose device work is missing in the capture." }
-- device_events = { type = "bigint", doc = "Device operations that the step launched." }
-- device_starts = { type = "bigint", doc = "Device operations that start within the step's wall time, launched by whatever step." }
-- clock_faults = { type = "bigint", doc = "Device operations launched in the step that start before their own launch." }
-- ///
with linked as (
  select distinct rank, launch_id from device_event where launch_id is not null
),
call as (
  select
    host_event.rank,
    case when host_event.ts_ns < _step_host.until_ns then _step_host.step end as step,
    linked.launch_id is not null as has_device
  from host_event
  asof left join _step_host on _step_host.rank = host_event.rank and host_event.ts_ns >= _step_host.from_ns
  left join linked on linked.rank = host_event.rank and linked.launch_id = host_event.event_id
  where host_event.class in ('launch', 'graph_launch')
),
calls as (
  select rank, step, count(*) as launches, count(*) filter (where not has_device) as missing from call group by rank, step
),
work as (
  select rank, step, count(*) as device_events, count(clock_fault_ns) as clock_faults from launch group by rank, step
),
starts as (
  select
    device_event.rank,
    case when device_event.ts_ns < step.ts_ns + step.dur_ns then step.step end as step,
    count(*) as device_starts
  from device_event
  asof left join step on step.rank = device_event.rank and device_event.ts_ns >= step.ts_ns
  group by all
),
place as (
  select rank, step from step
  union
  select rank, step from calls
  union
  select rank, step from starts
)
select
  place.rank, place.step, step.complete,
  coalesce(calls.launches, 0) as launches,
  coalesce(calls.missing, 0) as launches_without_device_event,
  coalesce(work.device_events, 0) as device_events,
  coalesce(starts.device_starts, 0) as device_starts,
  coalesce(work.clock_faults, 0) as clock_faults
from place
left join step on step.rank = place.rank and step.step = place.step
left join calls on calls.rank = place.rank and calls.step is not distinct from place.step
left join work on work.rank = place.rank and work.step is not distinct from place.step
left join starts on starts.rank = place.rank and starts.step is not distinct from place.step
order by place.rank, place.step nulls last
