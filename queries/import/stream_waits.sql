-- Synchronisation records: a stream or a thread that waits, never device work.
copy (
  select
    $rank::bigint as rank,
    event_id,
    case
      when contains(sync_kind, 'wait') then 'stream_wait_event'
      when contains(sync_kind, 'event') then 'event_sync'
      when contains(sync_kind, 'stream') then 'stream_sync'
      else 'context_sync'
    end as kind,
    device,
    lifted.context as context,
    case when stream >= 0 then stream end as stream,
    case when not contains(sync_kind, 'wait') then thread.pid_number end as pid,
    case when not contains(sync_kind, 'wait') then thread.tid_number end as tid,
    ts_ns - $origin as ts_ns,
    dur_ns,
    case when correlation > 0 then correlation end as correlation_id,
    case when lifted.wait_on_stream >= 0 then lifted.wait_on_stream end as awaited_stream,
    case when lifted.wait_on_cuda_event_id >= 0 then lifted.wait_on_cuda_event_id end as awaited_event,
    case when lifted.wait_on_cuda_event_record_corr_id > 0 then lifted.wait_on_cuda_event_record_corr_id end as record_correlation_id,
    nullif(launch_id, -1) as call_id,
    args::varchar as args
  from (
    select
      event.*,
      result.event_id,
      result.launch_id,
      result.launch_thread,
      lower(coalesce(json_extract_string(event.args, '$.cuda_sync_kind'), event.name, '')) as sync_kind,
      json_transform(
        event.args,
        '{"context": "bigint", "wait_on_stream": "bigint", "wait_on_cuda_event_id": "bigint",
          "wait_on_cuda_event_record_corr_id": "bigint"}'
      ) as lifted
    from read_parquet($parts) event
    join result on event.row = result.row
    join route
      on event.ph is not distinct from route.ph
      and event.cat is not distinct from route.cat
      and event.pid is not distinct from route.pid
      and coalesce(event.name = '[memory]', false) = route.is_memory
    where route.code = 3
  ) event
  left join (select distinct thread_number, pid_number, tid_number from thread_map) thread
    on event.launch_thread = thread.thread_number and event.launch_id >= 0
) to $file (format parquet, parquet_version v2, compression zstd)
