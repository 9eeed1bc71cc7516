-- Device operations of one process and device with the call that launched them. A correlation id is unique within its process only.
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
),
operation as (
  select *, graph_node_id is null as is_plain
  from read_parquet($operations)
  where case when process = -1 then $lone else process end = $process and device = $device and dur_ns is not null
),
ordered as (
  select
    operation.*,
    row_number() over in_order as number,
    lead(ts_ns) over on_stream as next_ts_ns,
    lead(ts_ns + dur_ns) over on_stream as next_end_ns,
    lead(is_plain) over on_stream as next_is_plain
  from operation
  window
    in_order as (order by stream, context, ts_ns, dur_ns desc, kind, name, correlation_id, graph_node_id, bytes),
    on_stream as (partition by stream, context order by ts_ns, dur_ns desc, kind, name, correlation_id, graph_node_id, bytes)
)
select
  $rank as rank,
  $first_id + number - 1 as event_id,
  device,
  context,
  stream,
  ts_ns - $origin as ts_ns,
  dur_ns,
  -- Work on one stream is serial: a record that holds the whole next one is impossible, and busy only until that one starts.
  case
    when is_plain and next_is_plain and kind <> 'graph' and next_ts_ns > ts_ns and next_end_ns + $rounding <= ts_ns + dur_ns then next_ts_ns - ts_ns
    else dur_ns
  end as busy_dur_ns,
  kind,
  name as code,
  case when launch.certain then launch.launch_id end as launch_id,
  correlation_id,
  cast(null as bigint) as external_id,
  bytes,
  copy_kind,
  src_memory,
  dst_memory,
  grid_x,
  grid_y,
  grid_z,
  block_x,
  block_y,
  block_z,
  registers,
  shared_memory_bytes,
  cast(null as double) as occupancy_share,
  graph_id,
  graph_node_id,
  args,
  launch.certain is not null and not launch.certain as ambiguous
from ordered
left join launch using (correlation_id)
order by number
