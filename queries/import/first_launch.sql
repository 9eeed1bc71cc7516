-- Start of the first call that gives work to a device; NULL when the capture holds no such call.
select min(ts_ns) as first_ns
from read_parquet($host_events)
where class in ('launch', 'graph_launch', 'copy_call', 'set_call')
