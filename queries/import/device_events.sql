-- Device operations of some parts, with the identity, the busy time and the launch found for each.
copy (
  with operation as (
    select
      event.*,
      result.event_id,
      result.busy_ns,
      result.launch_id,
      route.kind,
      name_class.class,
      name_class.clean_name,
      name_class.copy_kind,
      name_class.src_memory,
      name_class.dst_memory,
      json_transform(
        event.args,
        '{"context": "bigint", "bytes": "bigint", "grid": ["bigint"], "block": ["bigint"], "registers per thread": "bigint",
          "shared memory": "bigint", "est. achieved occupancy %": "double", "graph id": "bigint"}'
      ) as lifted
    from read_parquet($parts) event
    join result on event.row = result.row
    join route
      on event.ph is not distinct from route.ph
      and event.cat is not distinct from route.cat
      and event.pid is not distinct from route.pid
      and coalesce(event.name = '[memory]', false) = route.is_memory
    left join name_class
      on event.ph is not distinct from name_class.ph
      and event.cat is not distinct from name_class.cat
      and event.name = name_class.name
    where route.code = 2
  )
  select
    $rank::bigint as rank,
    event_id,
    coalesce(device, 0) as device,
    lifted.context as context,
    coalesce(stream, 0) as stream,
    ts_ns - $origin as ts_ns,
    dur_ns,
    busy_ns as busy_dur_ns,
    kind,
    case when kind = 'memcpy' then 'copy' when kind = 'memset' then 'other' else coalesce(class, 'other') end as class,
    coalesce(clean_name, name, '') as name,
    nullif(launch_id, -1) as launch_id,
    case when correlation > 0 then correlation end as correlation_id,
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
    case when graph_node > 0 then graph_node end as graph_node_id,
    args::varchar as args
  from operation
) to $file (format parquet, parquet_version v2, compression zstd)
