-- What each host thread did; threads that only hold the tool's own marks are none.
select
  pid,
  tid,
  count(*) filter (class = 'step') as steps,
  count(*) filter (class = 'optimizer_step') as optimizer_steps,
  count(*) filter (class = 'backward_node') as backward_nodes,
  count(*) filter (class in ('comm_range', 'comm_op')) as collectives,
  count(*) filter (kind in ('op', 'annotation')) as ranges,
  count(*) filter (kind in ('runtime', 'driver')) as calls,
  count(*) as events
from read_parquet($events)
where kind not in ('marker', 'overhead')
group by pid, tid
order by pid, tid
