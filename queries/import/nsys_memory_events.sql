-- Allocations and releases of one process; the sum is that of the capture, unknown from where it would fall below zero (releases of earlier blocks).
with change as (
  select
    *,
    sum(bytes) over so_far as held_bytes,
    row_number() over so_far as number
  from read_parquet($memory)
  where case when process = -1 then $lone else process end = $process and (memory in ('pinned', 'pageable') and $is_first or device = $device)
  window so_far as (partition by process, device, memory order by ts_ns, bytes desc, address rows unbounded preceding)
),
checked as (
  select *, min(held_bytes) over (partition by process, device, memory order by number rows unbounded preceding) as lowest_bytes
  from change
)
select
  $rank as rank,
  cast($pid as bigint) as pid,
  cast(null as bigint) as tid,
  ts_ns - $origin as ts_ns,
  case when memory in ('pinned', 'pageable') then 'cpu' else 'cuda' end as device_type,
  case when memory in ('pinned', 'pageable') then null else device end as device,
  address,
  bytes,
  case when lowest_bytes >= 0 then held_bytes end as allocated_bytes,
  cast(null as bigint) as reserved_bytes,
  args
from checked
order by ts_ns, device, memory, number
