-- /// view
-- sentence = "What the capture of a rank holds: the facts that decide which questions it can answer."
-- needs = ["source", "host_event", "device_event", "device", "step", "steady_step", "stream_wait", "memory_event", "flow"]
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
-- [columns.stream_waits]
-- type = "bigint"
-- doc = "Records of streams and threads that wait."
-- [columns.memory_events]
-- type = "bigint"
-- doc = "Allocations and releases."
-- [columns.shaped_ops]
-- type = "bigint"
-- doc = "Operators with the shapes of their inputs."
-- [columns.forward_flows]
-- type = "bigint"
-- doc = "Arrows from forward operators to their backward nodes."
-- [columns.ranges]
-- type = "bigint"
-- doc = "Ranges (annotations, NVTX) that are no step markers."
-- [columns.copies]
-- type = "bigint"
-- doc = "Copies."
-- [columns.copies_with_memory_kind]
-- type = "bigint"
-- doc = "Copies that say pageable or pinned."
-- ///
with host as (
  select
    rank,
    count(*) filter (where kind in ('op', 'runtime', 'driver', 'sync')) as host_events,
    count(*) filter (where kind = 'op') as ops,
    count(*) filter (where kind = 'python') as python_frames,
    count(*) filter (where kind = 'op' and args like '%"Input Dims"%') as shaped_ops,
    count(*) filter (where kind = 'annotation' and coalesce(class, '') <> 'step') as ranges
  from host_event
  group by rank
),
dev as (
  select
    rank,
    count(*) as device_events,
    count(*) filter (where launch_id is null) as unlinked_device_events,
    count(*) filter (where class = 'comm') as comm_events,
    count(*) filter (where kind = 'memcpy') as copies,
    count(*) filter (where kind = 'memcpy' and ('pageable' in (src_memory, dst_memory) or 'pinned' in (src_memory, dst_memory)))
      as copies_with_memory_kind,
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
waits as (select rank, count(*) as stream_waits from stream_wait group by rank),
memory as (select rank, count(*) as memory_events from memory_event group by rank),
arrow as (select rank, count(*) as forward_flows from flow where kind = 'fwdbwd' and phase = 's' group by rank),
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
  dev.largest_device_share,
  coalesce(waits.stream_waits, 0) as stream_waits,
  coalesce(memory.memory_events, 0) as memory_events,
  coalesce(host.shaped_ops, 0) as shaped_ops,
  coalesce(arrow.forward_flows, 0) as forward_flows,
  coalesce(host.ranges, 0) as ranges,
  coalesce(dev.copies, 0) as copies,
  coalesce(dev.copies_with_memory_kind, 0) as copies_with_memory_kind
from source
left join host on host.rank = source.rank
left join dev on dev.rank = source.rank
left join listed on listed.rank = source.rank
left join stepped on stepped.rank = source.rank
left join waits on waits.rank = source.rank
left join memory on memory.rank = source.rank
left join arrow on arrow.rank = source.rank
left join steady on steady.rank = source.rank
group by all
order by source.rank
