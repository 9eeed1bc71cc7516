-- /// view
-- sentence = "Complete steps that took more than 1.5 times the median steady step, and what they had more of."
-- needs = ["step", "step_cause", "steady_step"]
--
-- [columns.rank]
-- type = "bigint"
-- doc = "Rank."
-- [columns.step]
-- type = "bigint"
-- doc = "Number of the step."
-- [columns.dur_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Wall time of the step."
-- [columns.cause]
-- type = "varchar"
-- doc = "Class whose exposed time exceeds its median over the steady steps most."
-- [columns.extra_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "By how much."
-- [columns.steady]
-- type = "boolean"
-- doc = "Statistics use the step all the same."
-- ///
with typical as (select rank, median(dur_ns) as dur_ns from steady_step group by rank),
slow as (
  select step.rank, step.step, step.dur_ns
  from step
  inner join typical on typical.rank = step.rank
  where step.complete and step.dur_ns > 1.5 * typical.dur_ns
),
usual as (
  select cause.rank, cause.cause, median(coalesce(step_cause.exclusive_ns, 0)) as usual_ns
  from (select distinct rank, cause from step_cause) as cause
  inner join steady_step on steady_step.rank = cause.rank
  left join step_cause
    on step_cause.rank = cause.rank and step_cause.cause = cause.cause and step_cause.step = steady_step.step
  group by cause.rank, cause.cause
),
extra as (
  select slow.rank, slow.step, slow.dur_ns, step_cause.cause, step_cause.exclusive_ns - usual.usual_ns as extra_ns
  from slow
  inner join step_cause on step_cause.rank = slow.rank and step_cause.step = slow.step
  inner join usual on usual.rank = slow.rank and usual.cause = step_cause.cause
)
select
  extra.rank,
  extra.step,
  any_value(extra.dur_ns) as dur_ns,
  arg_max(extra.cause, extra.extra_ns) as cause,
  max(extra.extra_ns)::bigint as extra_ns,
  bool_or(steady_step.step is not null) as steady
from extra
left join steady_step on steady_step.rank = extra.rank and steady_step.step = extra.step
group by extra.rank, extra.step
order by extra.rank, dur_ns desc, extra.step
