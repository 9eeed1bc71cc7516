-- Allocations and releases; device type 0 is host memory, as in c10::DeviceType.
copy (
  select
    $rank::bigint as rank,
    thread_map.pid_number as pid,
    thread_map.tid_number as tid,
    event.ts_ns - $origin as ts_ns,
    case lifted."Device Type" when 0 then 'cpu' when 1 then 'cuda' when 6 then 'hip' when 12 then 'xpu' end as device_type,
    case when lifted."Device Type" <> 0 and lifted."Device Id" >= 0 then lifted."Device Id" end as device,
    lifted."Addr" as address,
    lifted."Bytes" as bytes,
    lifted."Total Allocated" as allocated_bytes,
    lifted."Total Reserved" as reserved_bytes,
    event.args::varchar as args
  from (
    select
      *,
      json_transform(
        args,
        '{"Device Type": "bigint", "Device Id": "bigint", "Addr": "bigint", "Bytes": "bigint", "Total Allocated": "bigint",
          "Total Reserved": "bigint"}'
      ) as lifted
    from read_parquet($parts)
    where name = '[memory]' and ph in ('i', 'I', 'R') and ts_ns is not null
  ) event
  join thread_map on event.pid is not distinct from thread_map.pid and event.tid is not distinct from thread_map.tid
) to $file (format parquet, parquet_version v2, compression zstd)
