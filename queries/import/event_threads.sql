-- Every pair of process and thread texts.
select pid, tid, count(*) as events
from read_parquet($parts)
group by all
order by all
