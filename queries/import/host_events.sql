-- Host events of some parts, with the identity and the parent found for each.
copy (
  select
    $rank::bigint as rank,
    result.event_id,
    nullif(result.parent_id, -1) as parent_id,
    nullif(result.depth, -1)::bigint as depth,
    thread_map.pid_number as pid,
    thread_map.tid_number as tid,
    event.ts_ns - $origin as ts_ns,
    case when result.cut_ns >= 0 then result.cut_ns when event.dur_ns >= 0 then event.dur_ns end as dur_ns,
    coalesce(name_class.kind, route.kind) as kind,
    name_class.class as class,
    coalesce(name_class.clean_name, event.name, '') as name,
    case when event.correlation > 0 then event.correlation end as correlation_id,
    case when event.external_id > 0 then event.external_id end as external_id,
    case when event.sequence_id >= 0 then event.sequence_id end as sequence_id,
    event.forward_tid as forward_tid,
    case
      when result.cut_ns >= 0 then json_merge_patch(coalesce(event.args, '{}'), json_object('recorded_dur_ns', event.dur_ns))::varchar
      -- Folders of the recording machine stay behind: of a path only what follows site-packages, or the file name.
      when contains(event.args, '"/') or contains(event.args, ';/') then
        regexp_replace(
          regexp_replace(event.args, '(["; ])/[^";]*?/(?:site|dist)-packages/', '\1', 'g'),
          '(["; ])(?:/[^"/;]+)+/', '\1', 'g'
        )
      else event.args
    end::varchar as args
  from read_parquet($parts) event
  join result on event.row = result.row
  join route
    on event.ph is not distinct from route.ph
    and event.cat is not distinct from route.cat
    and event.pid is not distinct from route.pid
    and coalesce(event.name = '[memory]', false) = route.is_memory
  join thread_map
    on event.pid is not distinct from thread_map.pid
    and event.tid is not distinct from thread_map.tid
  left join name_class
    on event.ph is not distinct from name_class.ph
    and event.cat is not distinct from name_class.cat
    and event.name = name_class.name
  where route.code = 1
) to $file (format parquet, parquet_version v2, compression zstd)
