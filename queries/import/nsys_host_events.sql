-- Host events of a rank's processes in the order in which they nest: by thread, then start, then the longer one first, then kind.
-- Ranges of a domain that a tool wrote take that domain's kind; holding the interpreter's lock is a mark, waiting for it is a wait.
select
  host.process * 16777216 + host.tid as thread,
  host.ts_ns - $origin as ts_ns,
  host.dur_ns,
  case
    when host.kind <> $annotation or domain.kind is null then host.kind
    when domain.is_gil and host.name = $holding then $marker
    else domain.kind
  end as kind,
  host.name,
  host.recorded,
  host.correlation_id,
  host.sequence_id,
  case
    when domain.args is null then host.args
    when host.args is null then domain.args
    else left(domain.args, -1) || ',' || substr(host.args, 2)
  end as args,
  foreign_call.correlation_id is not null as is_foreign
from read_parquet($host) host
left join domain on host.process = domain.process and host.domain = domain.domain
left join foreign_call on host.process = foreign_call.process and host.correlation_id = foreign_call.correlation_id
where host.process in (select unnest($processes::bigint[]))
order by thread, host.ts_ns, coalesce(host.dur_ns, 0) desc, host.kind, host.name, host.correlation_id, host.recorded
