-- /// view
-- sentence = "Each rank's steps side by side: wall time, what it waited for others in collectives, and what others waited for it."
-- needs = ["step", "_rank_wait", "lateness", "clock"]
--
-- [columns.rank]
-- type = "bigint"
-- doc = "Rank."
-- [columns.step]
-- type = "bigint"
-- doc = "Number of the step, equal on all ranks."
-- [columns.dur_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Wall time of the step on this rank."
-- [columns.slowest_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Wall time of the step on the slowest rank: the job's."
-- [columns.wait_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Time in which it sat in collectives that another rank had not reached; of collectives in flight together each moment once. NULL when its clock is unknown."
-- [columns.late_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Time by which it reached collectives after the median of the others, where it was last; NULL when its clock is unknown."
-- [columns.late_cause]
-- type = "varchar"
-- doc = "Class id that made it late most; NULL when it was not late."
-- ///
with late as (
  select rank, step, sum(late_ns)::bigint as late_ns from lateness group by rank, step
),
reason as (
  select rank, step, arg_max(cause, spent_ns) as late_cause
  from (select rank, step, cause, sum(late_ns) as spent_ns from lateness group by rank, step, cause)
  group by rank, step
),
known as (select rank from clock where offset_ns is not null)
select
  step.rank, step.step, step.dur_ns,
  max(step.dur_ns) over (partition by step.step) as slowest_ns,
  case when known.rank is not null then coalesce(waited.wait_ns, 0) end as wait_ns,
  case when known.rank is not null then coalesce(late.late_ns, 0) end as late_ns,
  reason.late_cause
from step
left join known on known.rank = step.rank
left join _rank_wait as waited on waited.rank = step.rank and waited.step = step.step
left join late on late.rank = step.rank and late.step = step.step
left join reason on reason.rank = step.rank and reason.step = step.step
order by step.rank, step.step
