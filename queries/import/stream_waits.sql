-- Synchronisation records: a stream or a thread that waits, never device work.
with event as (
  select
    event.*,
    lower(coalesce(json_extract_string(event.args, '$.cuda_sync_kind'), event.name, '')) as sync_kind,
    json_transform(
      event.args,
      '{"device": "bigint", "context": "bigint", "stream": "bigint", "wait_on_stream": "bigint", "wait_on_cuda_event_id": "bigint",
        "wait_on_cuda_event_record_corr_id": "bigint"}'
    ) as lifted
  from read_parquet($parts) event
  join route
    on event.ph is not distinct from route.ph
    and event.cat is not distinct from route.cat
    and event.pid is not distinct from route.pid
    and coalesce(event.name = '[memory]', false) = route.is_memory
  where route.target = 'stream_wait' and event.ts_ns is not null and event.dur_ns >= 0
),
call as (
  select correlation_id, min(event_id) as call_id, any_value(pid) as pid, any_value(tid) as tid, count(distinct tid) as threads
  from read_parquet($calls)
  group by correlation_id
)
select
  $rank as rank,
  $first_id + row_number() over (order by ts_ns, dur_ns, correlation, sync_kind, event.tid) - 1 as event_id,
  case
    when contains(sync_kind, 'wait') then 'stream_wait_event'
    when contains(sync_kind, 'event') then 'event_sync'
    when contains(sync_kind, 'stream') then 'stream_sync'
    else 'context_sync'
  end as kind,
  coalesce(lifted.device, try_cast(event.pid as bigint)) as device,
  lifted.context as context,
  case when lifted.stream >= 0 then lifted.stream else try_cast(regexp_extract(event.tid, '(\d+)', 1) as bigint) end as stream,
  case when not contains(sync_kind, 'wait') and call.threads = 1 then call.pid end as pid,
  case when not contains(sync_kind, 'wait') and call.threads = 1 then call.tid end as tid,
  ts_ns - $origin as ts_ns,
  dur_ns,
  case when correlation > 0 then correlation end as correlation_id,
  case when lifted.wait_on_stream >= 0 then lifted.wait_on_stream end as awaited_stream,
  case when lifted.wait_on_cuda_event_id >= 0 then lifted.wait_on_cuda_event_id end as awaited_event,
  case when lifted.wait_on_cuda_event_record_corr_id > 0 then lifted.wait_on_cuda_event_record_corr_id end as record_correlation_id,
  case when call.threads = 1 then call.call_id end as call_id,
  args
from event
left join call on event.correlation = call.correlation_id
order by event_id
