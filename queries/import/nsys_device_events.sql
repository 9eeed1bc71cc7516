-- Device operations of one process and device, by stream and start, with the call that launched them. A correlation id is unique within its process only.
with call as (
  select correlation_id, event_id, tid, ts_ns, ts_ns + coalesce(dur_ns, 0) as end_ns, class in ('launch', 'graph_launch', 'copy_call', 'set_call') as launches
  from read_parquet($calls)
  where process = $process
),
named as (
  select correlation_id, bool_or(coalesce(launches, false)) as launches
  from call
  group by correlation_id
  having count(*) > 1
),
launch as (
  select
    correlation_id,
    min(event_id) as launch_id,
    arg_min(ts_ns, event_id) as ts_ns,
    -- Two calls of one id: only when one runs inside the other (a runtime call and the driver call it makes) is the outer one the launch.
    min(tid) = max(tid) and max(end_ns) = arg_min(end_ns, event_id) as certain
  from call
  left join named using (correlation_id)
  where named.launches is null or coalesce(call.launches, false) = named.launches
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
  launch.certain is not null and not launch.certain as ambiguous,
  case when launch.certain then launch.ts_ns - (operation.ts_ns - $origin) end as early_ns
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
