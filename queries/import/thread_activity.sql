-- What each host thread did; threads that only hold the tool's own marks are none.
select
  pid,
  tid,
  count(*) filter (kind = 'op') as operations,
  count(*) filter (class = 'step') as steps,
  count(*) filter (class = 'optimizer_step') as optimizer_steps,
  count(*) filter (class = 'backward_node' or forward_tid > 0) as backward_nodes,
  count(*) filter (class = 'comm_range') as collectives,
  count(*) filter (kind in ('runtime', 'driver')) as calls,
  count(*) filter (kind not in ('marker', 'overhead')) as events
from read_parquet($events)
group by pid, tid
having count(*) filter (kind not in ('marker', 'overhead')) > 0
order by pid, tid
