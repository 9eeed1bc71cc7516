-- One chunk of traceEvents as typed rows. Times are exact decimals, never doubles: a double of µs since 1970 is off by up to 253 ns.
-- Of a key that an event's args hold twice the last one counts, as in every JSON reader that keeps one.
copy (
  select
    $number::bigint * 16777216 + row_number() over () - 1 as row,
    ph,
    cat,
    name,
    pid,
    tid,
    try_cast(ts * 1000 as bigint) as ts_ns,
    try_cast(dur * 1000 as bigint) as dur_ns,
    id,
    -- DuckDB's reader lets these words through, its JSON functions and everybody else's do not.
    case when odd_number then regexp_replace(args, '([:\[,])-?(?:[iI]nf(?:inity)?|[nN]a[nN])', '\1null', 'g') else args end as args,
    odd_number,
    lifted.correlation as correlation,
    coalesce(
      lifted."External id",
      case when cat in ('Kernel', 'Memcpy', 'Memset', 'Runtime') then json_transform(args, '{"external id": "bigint"}')."external id" end
    ) as external_id,
    lifted."Sequence number" as sequence_id,
    lifted."Fwd thread id" as forward_tid,
    lifted."Ev Idx" as event_index,
    lifted."graph node id" as graph_node,
    coalesce(lifted.device, try_cast(pid as bigint)) as device,
    coalesce(
      case
        when lifted.stream is not null and args like '%"stream":%"stream":%'
          then try_cast(regexp_extract(args, '.*"stream":"?(-?\d+)', 1) as bigint)
        else lifted.stream
      end,
      case when starts_with(tid, 'stream') then try_cast(regexp_extract(tid, '(\d+)', 1) as bigint) else try_cast(tid as bigint) end
    ) as stream
  from (
    select
      *,
      json_transform(
        args,
        '{"correlation": "bigint", "External id": "bigint", "Sequence number": "bigint", "Fwd thread id": "bigint", "Ev Idx": "bigint",
          "device": "bigint", "stream": "bigint", "graph node id": "bigint"}'
      ) as lifted,
      coalesce(regexp_matches(args, '[:\[,]-?(?:[iI]nf|[nN]a[nN])'), false) as odd_number
    from read_json(
      $chunk,
      format = 'array',
      columns = {
        ph: 'varchar', cat: 'varchar', name: 'varchar', pid: 'varchar', tid: 'varchar',
        ts: 'decimal(22,3)', dur: 'decimal(22,3)', id: 'varchar', args: 'json'
      },
      maximum_object_size = $object_bytes
    )
  )
) to $part (format parquet, parquet_version v2, compression lz4, write_bloom_filter false)
