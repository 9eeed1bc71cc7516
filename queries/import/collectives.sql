-- Collectives as their enqueueing calls describe them, with the one communication operation that carries the same external id.
copy (
  with call as (
    select
      *,
      json_transform(
        args,
        '{"Collective name": "varchar", "Process Group Name": "varchar", "Process Group Description": "varchar", "Seq": "bigint",
          "In msg nelems": "bigint", "Out msg nelems": "bigint", "dtype": "varchar", "Group size": "bigint"}'
      ) as lifted
    from read_parquet($host_events)
    where name = 'record_param_comms'
  ),
  operation as (
    select external_id, min(event_id) as device_event_id, count(*) as operations
    from read_parquet($operations)
    where class = 'comm' and external_id is not null
    group by external_id
  )
  select
    $rank::bigint as rank,
    call.event_id,
    coalesce(lifted."Collective name", 'unknown') as op,
    lifted."Process Group Name" as group_name,
    lifted."Process Group Description" as group_desc,
    lifted."Seq" as sequence,
    lifted."In msg nelems" as in_elements,
    lifted."Out msg nelems" as out_elements,
    greatest(lifted."In msg nelems", lifted."Out msg nelems") * dtype_size.bytes as bytes,
    lifted.dtype as dtype,
    lifted."Group size" as group_size,
    call.ts_ns,
    coalesce(call.dur_ns, 0) as dur_ns,
    case when operation.operations = 1 then operation.device_event_id end as device_event_id,
    call.args::varchar as args
  from call
  left join dtype_size on lower(lifted.dtype) = dtype_size.dtype
  left join operation on call.external_id = operation.external_id
  order by call.event_id
) to $file (format parquet, parquet_version v2, compression zstd)
