-- NCCL calls as their ranges show them. Nothing names communicator, size or order; the kernel is known when its launch lies in the range.
with launch as (
  select call.process, call.tid, call.ts_ns, operation.event_id as device_event_id
  from read_parquet($operations) operation
  join read_parquet($calls) call on operation.launch_id = call.event_id
  where operation.class = 'comm'
),
range as (
  select *, ts_ns + coalesce(dur_ns, 0) as end_ns
  from read_parquet($collectives)
),
held as (
  select range.event_id, first.device_event_id
  from range
  asof join launch first on range.process = first.process and range.tid = first.tid and range.ts_ns <= first.ts_ns
  asof join launch last on range.process = last.process and range.tid = last.tid and range.end_ns >= last.ts_ns
  where first.device_event_id = last.device_event_id and first.ts_ns <= range.end_ns
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
  held.device_event_id,
  range.args
from range
left join held using (event_id)
order by range.event_id
