-- Begins and ends of ranges that were not written as one event, in the order of each thread.
select ph, cat, name, pid, tid, ts_ns, id, args, correlation, external_id, sequence_id, forward_tid, event_index, graph_node, device, stream
from read_parquet($parts)
where ph in ('B', 'E') and ts_ns is not null
order by pid, tid, ts_ns, row
