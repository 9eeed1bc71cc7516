-- Collectives as their enqueueing calls describe them, with the one communication operation that carries the same external id;
-- and those that only their own operation describes.
copy (
  with call as (
    select *
    from read_parquet($host_events)
    where name = 'record_param_comms'
  ),
  operation as (
    select external_id, min(event_id) as device_event_id, count(*) as operations
    from read_parquet($operations)
    where class = 'comm' and external_id is not null
    group by external_id
  ),
  called as (
    select
      call.event_id, call.ts_ns, call.dur_ns, call.args,
      case when operation.operations = 1 then operation.device_event_id end as device_event_id
    from call
    left join operation on call.external_id = operation.external_id
  ),
  launch as (
    select event_id, ts_ns, dur_ns
    from read_parquet($host_events)
    where kind in ('runtime', 'driver')
  ),
  self_described as (
    select
      coalesce(launch.event_id, own.event_id) as event_id,
      coalesce(launch.ts_ns, own.ts_ns) as ts_ns,
      coalesce(launch.dur_ns, 0) as dur_ns,
      own.args,
      own.event_id as device_event_id
    from read_parquet($operations) as own
    left join launch on launch.event_id = own.launch_id
    where
      own.class = 'comm'
      and own.args like '%"Collective name"%'
      and own.event_id not in (select device_event_id from called where device_event_id is not null)
  ),
  described as (
    select
      *,
      json_transform(
        args,
        '{"Collective name": "varchar", "Process Group Name": "varchar", "Process Group Description": "varchar", "Seq": "bigint",
          "In msg nelems": "bigint", "Out msg nelems": "bigint", "dtype": "varchar", "Group size": "bigint"}'
      ) as lifted
    from (from called union all from self_described)
  )
  select
    $rank::bigint as rank,
    described.event_id,
    coalesce(lifted."Collective name", 'unknown') as op,
    lifted."Process Group Name" as group_name,
    lifted."Process Group Description" as group_desc,
    lifted."Seq" as sequence,
    lifted."In msg nelems" as in_elements,
    lifted."Out msg nelems" as out_elements,
    greatest(lifted."In msg nelems", lifted."Out msg nelems") * dtype_size.bytes as bytes,
    lifted.dtype as dtype,
    lifted."Group size" as group_size,
    described.ts_ns,
    coalesce(described.dur_ns, 0) as dur_ns,
    described.device_event_id,
    described.args::varchar as args
  from described
  left join dtype_size on lower(lifted.dtype) = dtype_size.dtype
  order by described.event_id
) to $file (format parquet, parquet_version v2, compression zstd)
