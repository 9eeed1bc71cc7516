-- Times in which a thread did not run: from a switch away to the thread's next switch in. A last switch away has no end.
select globalTid, cpu, start, next_start as "end", threadState, threadBlock
from (
  select
    *,
    lead(start) over on_thread as next_start,
    lead(isSchedIn) over on_thread as next_is_in
  from read_parquet($scheduled)
  where globalTid is not null
  window on_thread as (partition by globalTid order by start, isSchedIn)
)
where isSchedIn = 0 and next_is_in <> 0
