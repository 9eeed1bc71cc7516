-- NCCL calls as their ranges show them. Nothing names communicator, size or order; the kernel is known when its launch lies in the range.
with launch as (
  select call.process, call.tid, call.ts_ns, operation.event_id as device_event_id
  from read_parquet($operations) operation
  join read_parquet($calls) call on operation.launch_id = call.event_id
  where operation.class = 'comm'
),
held as (
  select range.event_id, min(launch.device_event_id) as device_event_id, count(launch.device_event_id) as launches
  from read_parquet($collectives) range
  join launch on range.process = launch.process and range.tid = launch.tid and launch.ts_ns between range.ts_ns and range.ts_ns + coalesce(range.dur_ns, 0)
  group by range.event_id
)
select
  $rank as rank,
  range.event_id,
  lower(regexp_replace(range.name, '^p?nccl', '')) as op,
  cast(null as varchar) as group_name,
  cast(null as varchar) as group_desc,
  cast(null as bigint) as sequence,
  cast(null as bigint) as in_elements,
  cast(null as bigint) as out_elements,
  cast(null as bigint) as bytes,
  cast(null as varchar) as dtype,
  cast(null as bigint) as group_size,
  range.ts_ns,
  coalesce(range.dur_ns, 0) as dur_ns,
  case when held.launches = 1 then held.device_event_id end as device_event_id,
  range.args
from read_parquet($collectives) range
left join held using (event_id)
order by range.event_id
