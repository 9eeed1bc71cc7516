-- /// view
-- sentence = "What each cause costs on the critical path of a rank, over its steady steps."
-- needs = ["path_part"]
--
-- [columns.rank]
-- type = "bigint"
-- doc = "Rank."
-- [columns.cause]
-- type = "varchar"
-- doc = "Class id."
-- [columns.path_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Time on the path, summed over the steady steps."
-- [columns.exposed_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Part of path_ns that no device operation hides."
-- [columns.path_share]
-- type = "double"
-- unit = "share"
-- doc = "path_ns divided by the time of the steady steps."
-- [columns.exposed_share]
-- type = "double"
-- unit = "share"
-- doc = "exposed_ns divided by the time of the steady steps."
-- [columns.steps]
-- type = "bigint"
-- doc = "Number of steady steps; 0 when the rank has none and the path stands for the whole window."
-- [columns.steps_hit]
-- type = "bigint"
-- doc = "Steady steps in which the cause is on the path."
-- [columns.step_min_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Least exposed time in a steady step; NULL without steps."
-- [columns.step_median_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Median exposed time of a steady step; NULL without steps."
-- [columns.step_max_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Most exposed time in a steady step; NULL without steps."
-- ///
with total as (
  select rank, sum(dur_ns) as all_ns, count(distinct step) as steps
  from path_part
  group by rank
),
by_step as (
  select rank, step, cause, sum(dur_ns) as path_ns, sum(exposed_ns) as exposed_ns
  from path_part
  group by rank, step, cause
),
every_step as (
  select distinct rank, step
  from path_part
  where step is not null
),
every_cause as (select distinct rank, cause from path_part),
filled as (
  select every_cause.rank, every_cause.cause, every_step.step, coalesce(by_step.exposed_ns, 0) as exposed_ns
  from every_cause
  inner join every_step on every_step.rank = every_cause.rank
  left join by_step on by_step.rank = every_cause.rank and by_step.cause = every_cause.cause and by_step.step = every_step.step
),
spread as (
  select
    rank, cause, min(exposed_ns) as step_min_ns, median(exposed_ns)::bigint as step_median_ns, max(exposed_ns) as step_max_ns
  from filled
  group by rank, cause
)
select
  by_step.rank,
  by_step.cause,
  sum(by_step.path_ns)::bigint as path_ns,
  sum(by_step.exposed_ns)::bigint as exposed_ns,
  sum(by_step.path_ns) / any_value(total.all_ns) as path_share,
  sum(by_step.exposed_ns) / any_value(total.all_ns) as exposed_share,
  any_value(total.steps) as steps,
  count(by_step.step) as steps_hit,
  any_value(spread.step_min_ns) as step_min_ns,
  any_value(spread.step_median_ns) as step_median_ns,
  any_value(spread.step_max_ns) as step_max_ns
from by_step
inner join total using (rank)
left join spread on spread.rank = by_step.rank and spread.cause = by_step.cause
group by by_step.rank, by_step.cause
order by by_step.rank, exposed_ns desc
