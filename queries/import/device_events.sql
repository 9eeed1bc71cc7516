-- Device operations with the call that launched them. Ids follow device, stream and start; records without a time are left out (and counted).
with call as (
  select
    correlation_id,
    min(case when class in ('launch', 'graph_launch', 'copy_call', 'set_call') then 0 else 1 end) as preference
  from read_parquet($calls)
  group by correlation_id
),
launch as (
  select
    correlation_id,
    arg_min(event_id, event_id) as launch_id,
    -- Two calls of one id: only when one runs inside the other (a runtime call and the driver call it makes) is the outer one the launch.
    count(distinct tid) = 1 and max(ts_ns + coalesce(dur_ns, 0)) = arg_min(ts_ns + coalesce(dur_ns, 0), event_id) as certain
  from read_parquet($calls)
  join call using (correlation_id)
  where preference = case when class in ('launch', 'graph_launch', 'copy_call', 'set_call') then 0 else 1 end
  group by correlation_id
),
operation as (
  select
    event.*,
    route.kind,
    name_class.class,
    name_class.clean_name,
    name_class.copy_kind,
    name_class.src_memory,
    name_class.dst_memory,
    json_transform(
      event.args,
      '{"device": "bigint", "context": "bigint", "stream": "bigint", "bytes": "bigint", "grid": ["bigint"], "block": ["bigint"],
        "registers per thread": "bigint", "shared memory": "bigint", "est. achieved occupancy %": "double", "graph id": "bigint",
        "graph node id": "bigint"}'
    ) as lifted
  from read_parquet($parts) event
  join route
    on event.ph is not distinct from route.ph
    and event.cat is not distinct from route.cat
    and event.pid is not distinct from route.pid
    and coalesce(event.name = '[memory]', false) = route.is_memory
  left join name_class
    on event.ph is not distinct from name_class.ph
    and event.cat is not distinct from name_class.cat
    and event.name = name_class.name
  where route.target = 'device_event' and event.ts_ns is not null and event.dur_ns >= 0 and not (event.ts_ns <= 0 and event.dur_ns = 0)
),
placed as (
  select
    operation.*,
    coalesce(lifted.device, try_cast(pid as bigint), 0) as device,
    coalesce(lifted.stream, try_cast(regexp_extract(tid, '(\d+)', 1) as bigint), 0) as stream,
    case when correlation > 0 then correlation end as correlation_id,
    coalesce(lifted."graph node id", 0) = 0 as is_plain
  from operation
),
ordered as (
  select
    placed.*,
    row_number() over in_order as number,
    lead(ts_ns) over on_stream as next_ts_ns,
    lead(ts_ns + dur_ns) over on_stream as next_end_ns,
    lead(is_plain) over on_stream as next_is_plain
  from placed
  window
    in_order as (order by device, stream, ts_ns, dur_ns desc, name, correlation, external_id),
    on_stream as (partition by device, stream order by ts_ns, dur_ns desc, name, correlation, external_id)
)
select
  $rank as rank,
  $first_id + number - 1 as event_id,
  device,
  lifted.context as context,
  stream,
  ts_ns - $origin as ts_ns,
  dur_ns,
  -- Work on one stream is serial: a record that holds the whole next one is impossible, and busy only until that one starts.
  case
    when is_plain and next_is_plain and next_ts_ns > ts_ns and next_end_ns + $rounding <= ts_ns + dur_ns then next_ts_ns - ts_ns
    else dur_ns
  end as busy_dur_ns,
  kind,
  case when kind = 'memcpy' then 'copy' when kind = 'memset' then 'other' else coalesce(class, 'other') end as class,
  coalesce(clean_name, name, '') as name,
  case when launch.certain then launch.launch_id end as launch_id,
  correlation_id,
  case when external_id > 0 then external_id end as external_id,
  case when kind in ('memcpy', 'memset') then lifted.bytes end as bytes,
  case when kind = 'memcpy' then copy_kind end as copy_kind,
  case when kind = 'memcpy' then src_memory end as src_memory,
  case when kind = 'memcpy' then dst_memory end as dst_memory,
  lifted.grid[1] as grid_x,
  lifted.grid[2] as grid_y,
  lifted.grid[3] as grid_z,
  lifted.block[1] as block_x,
  lifted.block[2] as block_y,
  lifted.block[3] as block_z,
  lifted."registers per thread" as registers,
  lifted."shared memory" as shared_memory_bytes,
  case when isfinite(lifted."est. achieved occupancy %") then lifted."est. achieved occupancy %" / 100 end as occupancy_share,
  case when lifted."graph id" > 0 then lifted."graph id" end as graph_id,
  case when lifted."graph node id" > 0 then lifted."graph node id" end as graph_node_id,
  args,
  launch.certain is not null and not launch.certain as ambiguous
from ordered
left join launch using (correlation_id)
order by number
