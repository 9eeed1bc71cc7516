-- Names of processes and threads.
select pid, tid, name, args
from read_parquet($parts)
where ph = 'M'
