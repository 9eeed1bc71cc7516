-- /// view
-- sentence = "What the capture of a rank holds: the facts that decide which questions it can answer."
-- needs = ["source", "host_event", "device_event", "device", "step", "steady_step", "collective"]
--
-- [columns.rank]
-- type = "bigint"
-- doc = "Rank."
-- [columns.kind]
-- type = "varchar"
-- doc = "Kind of the source: torch or nsys."
-- [columns.host_events]
-- type = "bigint"
-- doc = "Host events that are work (operators, runtime and driver calls)."
-- [columns.ops]
-- type = "bigint"
-- doc = "Operators."
-- [columns.python_frames]
-- type = "bigint"
-- doc = "Python frames: above 0 when stacks were recorded."
-- [columns.device_events]
-- type = "bigint"
-- doc = "Device operations."
-- [columns.devices_listed]
-- type = "bigint"
-- doc = "Accelerators that the file lists, with or without events."
-- [columns.unlinked_device_events]
-- type = "bigint"
-- doc = "Device operations without a launching call in the capture."
-- [columns.launches]
-- type = "bigint"
-- doc = "Launching calls inside steps; NULL without steps."
-- [columns.launches_without_device_event]
-- type = "bigint"
-- doc = "Those of them without device work in the capture; NULL without steps."
-- [columns.steps]
-- type = "bigint"
-- doc = "Steps."
-- [columns.complete_steps]
-- type = "bigint"
-- doc = "Complete steps."
-- [columns.steady_steps]
-- type = "bigint"
-- doc = "Steps that statistics use."
-- [columns.steps_without_device_event]
-- type = "bigint"
-- doc = "Steps that launch device work of which the capture holds nothing."
-- [columns.comm_events]
-- type = "bigint"
-- doc = "Communication kernels."
-- [columns.world_size]
-- type = "bigint"
-- doc = "Ranks of the job, as the file says."
-- [columns.ranks_present]
-- type = "bigint"
-- doc = "Ranks in this run."
-- [columns.truncated]
-- type = "boolean"
-- doc = "The file ends before its events do."
-- [columns.largest_device_share]
-- type = "double"
-- unit = "share"
-- doc = "Share of the longest device operation in the sum of all."
-- ///
with host as (
  select
    rank,
    count(*) filter (where kind in ('op', 'runtime', 'driver', 'sync')) as host_events,
    count(*) filter (where kind = 'op') as ops,
    count(*) filter (where kind = 'python') as python_frames
  from host_event
  group by rank
),
dev as (
  select
    rank,
    count(*) as device_events,
    count(*) filter (where launch_id is null) as unlinked_device_events,
    count(*) filter (where class = 'comm') as comm_events,
    max(busy_dur_ns) / nullif(sum(busy_dur_ns), 0) as largest_device_share
  from device_event
  group by rank
),
listed as (select rank, count(*) as devices_listed from device group by rank),
stepped as (
  select
    rank,
    count(*) as steps,
    count(*) filter (where complete) as complete_steps,
    sum(launches)::bigint as launches,
    sum(launches_without_device_event)::bigint as launches_without_device_event,
    count(*) filter (where launches > 0 and launches = launches_without_device_event) as steps_without_device_event
  from step
  group by rank
),
steady as (select rank, count(*) as steady_steps from steady_step group by rank)
select
  source.rank,
  any_value(source.kind) as kind,
  coalesce(host.host_events, 0) as host_events,
  coalesce(host.ops, 0) as ops,
  coalesce(host.python_frames, 0) as python_frames,
  coalesce(dev.device_events, 0) as device_events,
  coalesce(listed.devices_listed, 0) as devices_listed,
  coalesce(dev.unlinked_device_events, 0) as unlinked_device_events,
  stepped.launches,
  stepped.launches_without_device_event,
  coalesce(stepped.steps, 0) as steps,
  coalesce(stepped.complete_steps, 0) as complete_steps,
  coalesce(steady.steady_steps, 0) as steady_steps,
  coalesce(stepped.steps_without_device_event, 0) as steps_without_device_event,
  coalesce(dev.comm_events, 0) as comm_events,
  max(source.world_size) as world_size,
  (select count(distinct rank) from source) as ranks_present,
  coalesce(bool_or(source.truncated), false) as truncated,
  dev.largest_device_share
from source
left join host on host.rank = source.rank
left join dev on dev.rank = source.rank
left join listed on listed.rank = source.rank
left join stepped on stepped.rank = source.rank
left join steady on steady.rank = source.rank
group by all
order by source.rank
