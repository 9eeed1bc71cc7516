-- Synchronisation records of one process and device: a stream or a thread that waits, never device work.
-- The awaited record is found by its synchronisation id, else by the event's handle (reused) as the last record before the wait.
with wanted as (
  select correlation_id from read_parquet($waits)
  union
  select correlation_id from read_parquet($events)
),
call as (
  select correlation_id, min(event_id) as call_id, any_value(pid) as pid, any_value(tid) as tid, count(distinct tid) as threads,
    min(ts_ns) as ts_ns, arg_min(class, event_id) as class
  from read_parquet($calls)
  where process = $process and correlation_id in (from wanted)
  group by correlation_id
),
wait as (
  select
    wait.*,
    coalesce(context_device.device, wait.device) as on_device,
    call.call_id,
    call.pid,
    call.tid,
    call.threads,
    coalesce(
      wait.kind,
      case call.class
        when 'device_sync' then 'context_sync'
        when 'stream_sync' then 'stream_sync'
        when 'event_sync' then 'event_sync'
        when 'stream_wait_call' then 'stream_wait_event'
      end,
      -- An untyped record that names neither stream nor event can only be a wait for the whole context.
      case when wait.stream is null and wait.event is null then 'context_sync' end
    ) as sync_kind
  from read_parquet($waits) wait
  left join context_device on wait.process = context_device.process and wait.context = context_device.context
  left join call on wait.correlation_id = call.correlation_id
  where case when wait.process = -1 then $lone else wait.process end = $process
),
record as (
  select event.stream, event.event, event.event_sync, event.correlation_id, call.ts_ns
  from read_parquet($events) event
  left join call on event.correlation_id = call.correlation_id
  where event.process = $process
),
by_sync as (
  select event_sync, min(correlation_id) as correlation_id, min(stream) as stream
  from record
  where event_sync is not null
  group by event_sync
  having count(*) = 1
),
by_handle as (
  select event, ts_ns, min(correlation_id) as correlation_id, min(stream) as stream
  from record
  where ts_ns is not null and event is not null
  group by event, ts_ns
  having count(*) = 1
)
select
  $rank as rank,
  $first_id + row_number() over (order by wait.ts_ns, wait.dur_ns, wait.stream, wait.correlation_id, wait.sync_kind, wait.event) - 1 as event_id,
  wait.sync_kind as kind,
  wait.on_device as device,
  wait.context,
  wait.stream,
  case when wait.sync_kind <> 'stream_wait_event' and wait.threads = 1 then wait.pid end as pid,
  case when wait.sync_kind <> 'stream_wait_event' and wait.threads = 1 then wait.tid end as tid,
  wait.ts_ns - $origin as ts_ns,
  coalesce(wait.dur_ns, 0) as dur_ns,
  wait.correlation_id,
  coalesce(by_sync.stream, case when wait.event_sync is null then by_handle.stream end) as awaited_stream,
  wait.event as awaited_event,
  coalesce(by_sync.correlation_id, case when wait.event_sync is null then by_handle.correlation_id end) as record_correlation_id,
  case when wait.threads = 1 then wait.call_id end as call_id,
  cast(null as varchar) as args
from wait
left join by_sync on wait.event_sync = by_sync.event_sync
-- Stage times and call times differ by the run's origin.
asof left join by_handle on wait.event = by_handle.event and wait.ts_ns - $origin >= by_handle.ts_ns
where wait.sync_kind is not null and (not $several or wait.on_device is not distinct from $device)
order by event_id
