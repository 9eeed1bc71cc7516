-- How many events there are of each phase, category and process, and when they lie.
select
  ph,
  cat,
  pid,
  name = '[memory]' as is_memory,
  count(*) as events,
  count(*) filter (odd_number) as odd_numbers,
  count(ts_ns) as timed,
  min(ts_ns) as first_ns,
  max(ts_ns + coalesce(dur_ns, 0)) as last_ns,
  min(name) as example
from read_parquet($parts)
group by all
order by all
