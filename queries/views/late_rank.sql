-- /// view
-- sentence = "Ranks that others wait for, and why: the straggler ranking."
-- needs = ["lateness", "job_what_if", "step"]
--
-- [columns.rank]
-- type = "bigint"
-- doc = "The late rank."
-- [columns.cause]
-- type = "varchar"
-- doc = "Class id of which its own path had more than the others'; unknown when none explains half of a lateness."
-- [columns.late_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Time by which it reached collectives after the median of the others, over the capture."
-- [columns.steps_hit]
-- type = "bigint"
-- doc = "Steps in which it was late for this cause."
-- [columns.steps]
-- type = "bigint"
-- doc = "Steps of this rank."
-- [columns.saving_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "What the job would be shorter by at most if this rank had no more of the cause than the others (replay of all ranks); NULL for unknown."
-- [columns.makespan_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Time of the job, which saving_ns is part of; NULL for unknown."
-- ///
with counted as (select rank, count(*) as steps from step group by rank)
select
  lateness.rank, lateness.cause, sum(lateness.late_ns)::bigint as late_ns, count(distinct lateness.step) as steps_hit,
  coalesce(any_value(counted.steps), 0) as steps, any_value(job_what_if.saving_ns) as saving_ns, any_value(job_what_if.makespan_ns) as makespan_ns
from lateness
left join counted on counted.rank = lateness.rank
left join job_what_if on job_what_if.rank = lateness.rank and job_what_if.cause = lateness.cause
group by lateness.rank, lateness.cause
order by saving_ns desc nulls last, late_ns desc, lateness.rank
