-- /// view
-- sentence = "Each rank's runs of collectives: communication kernels with what their enqueueing calls say, or, on a rank without device work, the ranges of background threads (gloo)."
-- needs = ["device_event", "host_event", "collective"]
-- small = true
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- side = { type = "varchar", doc = "device or host." }
-- event_id = { type = "bigint", doc = "The device_event or host_event." }
-- op = { type = "varchar", doc = "Operation as described; the name of the kernel or range when nothing describes it." }
-- kind = { type = "varchar", doc = "Its kind in names.csv: allreduce, allgather, send_recv, ...; NULL when unknown." }
-- group_name = { type = "varchar", doc = "Process group; NULL when not known." }
-- group_size = { type = "bigint", doc = "Ranks in the group; NULL when not known." }
-- bytes = { type = "bigint", unit = "bytes", doc = "Size; NULL when not known." }
-- sequence = { type = "bigint", doc = "Sequence number within the group, when the file has one." }
-- ts_ns = { type = "bigint", unit = "ns", doc = "Start." }
-- dur_ns = { type = "bigint", unit = "ns", doc = "Duration, waiting for other ranks included." }
-- ///
with described as (
  select
    rank, device_event_id, any_value(nullif(lower(op), 'unknown')) as op, any_value(group_name) as group_name, max(group_size) as group_size,
    max(bytes) as bytes, max(sequence) as sequence
  from collective
  where device_event_id is not null
  group by rank, device_event_id
),
run as (
  select
    device_event.rank, 'device' as side, device_event.event_id, coalesce(described.op, device_event.name) as op, described.group_name,
    described.group_size, described.bytes, described.sequence, device_event.ts_ns, device_event.busy_dur_ns as dur_ns
  from device_event
  left join described on described.rank = device_event.rank and described.device_event_id = device_event.event_id
  where device_event.class = 'comm'
  union all
  select rank, 'host' as side, event_id, name as op, null as group_name, null as group_size, null as bytes, null as sequence, ts_ns, dur_ns
  from host_event
  where class = 'comm_range' and dur_ns is not null and rank not in (select rank from device_event)
),
known as (
  select named.op, arg_min(pattern.class, pattern.place) as kind
  from (select distinct op from run) as named
  inner join _name_pattern as pattern on pattern.target = 'collective' and regexp_full_match(lower(named.op), pattern.pattern)
  group by named.op
)
select run.rank, run.side, run.event_id, run.op, known.kind, run.group_name, run.group_size, run.bytes, run.sequence, run.ts_ns, run.dur_ns
from run
left join known on known.op = run.op
