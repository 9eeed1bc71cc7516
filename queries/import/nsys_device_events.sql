-- Device operations of one process and device, by stream and start, with the call that launched them. A correlation id is unique within its process only.
with call as (
  select
    correlation_id,
    event_id,
    tid,
    ts_ns,
    dur_ns,
    case when class in ('launch', 'graph_launch', 'copy_call', 'set_call') then 0 else 1 end as preference
  from read_parquet($calls)
  where process = $process
),
preferred as (
  select correlation_id, min(preference) as preference
  from call
  group by correlation_id
),
launch as (
  select
    correlation_id,
    min(event_id) as launch_id,
    -- Two calls of one id: only when one runs inside the other (a runtime call and the driver call it makes) is the outer one the launch.
    count(distinct tid) = 1 and max(ts_ns + coalesce(dur_ns, 0)) = arg_min(ts_ns + coalesce(dur_ns, 0), event_id) as certain
  from call
  join preferred using (correlation_id, preference)
  group by correlation_id
)
select
  operation.device,
  operation.context,
  operation.stream,
  operation.ts_ns - $origin as ts_ns,
  operation.dur_ns,
  operation.kind,
  operation.name as code,
  case when launch.certain then launch.launch_id end as launch_id,
  operation.correlation_id,
  operation.bytes,
  operation.copy_kind,
  operation.src_memory,
  operation.dst_memory,
  operation.grid_x,
  operation.grid_y,
  operation.grid_z,
  operation.block_x,
  operation.block_y,
  operation.block_z,
  operation.registers,
  operation.shared_memory_bytes,
  operation.graph_id,
  operation.graph_node_id,
  operation.args,
  launch.certain is not null and not launch.certain as ambiguous
from read_parquet($operations) operation
left join launch using (correlation_id)
where
  case when operation.process = -1 then $lone else operation.process end = $process
  and operation.device = $device
  and operation.dur_ns is not null
order by
  operation.stream,
  operation.context,
  operation.ts_ns,
  operation.dur_ns desc,
  operation.kind,
  operation.name,
  operation.correlation_id,
  operation.graph_node_id,
  operation.bytes
