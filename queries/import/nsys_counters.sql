-- Samples of the machine's counters.
select $rank as rank, pid, ts_ns - $origin as ts_ns, name, series, value
from read_parquet($counters)
order by name, series, pid, ts_ns, value
