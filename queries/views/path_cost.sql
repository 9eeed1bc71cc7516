-- /// view
-- sentence = "What each cause costs a rank over its steady steps (over the whole window when it has none)."
-- needs = ["step_cause", "steady_step", "what_if"]
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
-- doc = "Time on the critical path."
-- [columns.exclusive_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Exposed time, see step_cause."
-- [columns.path_share]
-- type = "double"
-- unit = "share"
-- doc = "path_ns divided by the time of the steady steps."
-- [columns.exclusive_share]
-- type = "double"
-- unit = "share"
-- doc = "exclusive_ns divided by the time of the steady steps."
-- [columns.steps]
-- type = "bigint"
-- doc = "Number of steady steps; 0 when the rank has none and the figures stand for the whole window."
-- [columns.steps_hit]
-- type = "bigint"
-- doc = "Steady steps in which the cause has exposed time."
-- [columns.step_min_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Least exposed time of a steady step; NULL without steps."
-- [columns.step_median_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Median exposed time of a steady step; NULL without steps."
-- [columns.step_max_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Most exposed time of a steady step; NULL without steps."
-- [columns.replay_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "What the replay without the cause saves over the same time; NULL when that was not replayed (see what_if)."
-- [columns.next_limit]
-- type = "varchar"
-- doc = "Class id that then limits the replayed run, see what_if.next_limit; unknown: the saving is unknown, too."
-- ///
with stepped as (select rank, count(*) as steps from steady_step group by rank),
part as (
  select
    step_cause.rank, step_cause.step, step_cause.cause, step_cause.path_ns, step_cause.exclusive_ns, coalesce(stepped.steps, 0) as steps
  from step_cause
  left join stepped on stepped.rank = step_cause.rank
  left join steady_step on steady_step.rank = step_cause.rank and steady_step.step = step_cause.step
  where stepped.rank is null or steady_step.step is not null
),
total as (select rank, sum(path_ns) as all_ns from part group by rank),
-- A cause that is absent from a step costs that step nothing: the path covers every moment, so this zero is measured.
every_step as (
  select cause.rank, cause.cause, steady_step.step
  from (select distinct rank, cause from part) as cause
  inner join steady_step on steady_step.rank = cause.rank
),
spread as (
  select
    every_step.rank,
    every_step.cause,
    min(coalesce(part.exclusive_ns, 0))::bigint as step_min_ns,
    median(coalesce(part.exclusive_ns, 0))::bigint as step_median_ns,
    max(coalesce(part.exclusive_ns, 0))::bigint as step_max_ns
  from every_step
  left join part on part.rank = every_step.rank and part.cause = every_step.cause and part.step = every_step.step
  group by every_step.rank, every_step.cause
),
replay as (
  select what_if.rank, what_if.cause, sum(what_if.saving_ns)::bigint as replay_ns
  from what_if
  left join stepped on stepped.rank = what_if.rank
  left join steady_step on steady_step.rank = what_if.rank and steady_step.step = what_if.step
  where case when stepped.rank is null then what_if.step is null else steady_step.step is not null end
  group by what_if.rank, what_if.cause
),
whole as (select rank, cause, next_limit from what_if where step is null)
select
  part.rank,
  part.cause,
  sum(part.path_ns)::bigint as path_ns,
  sum(part.exclusive_ns)::bigint as exclusive_ns,
  sum(part.path_ns) / any_value(total.all_ns) as path_share,
  sum(part.exclusive_ns) / any_value(total.all_ns) as exclusive_share,
  any_value(part.steps) as steps,
  count(part.step) filter (where part.exclusive_ns > 0) as steps_hit,
  any_value(spread.step_min_ns) as step_min_ns,
  any_value(spread.step_median_ns) as step_median_ns,
  any_value(spread.step_max_ns) as step_max_ns,
  -- greatest() passes over NULL: what was not replayed would save 0.
  case when any_value(replay.replay_ns) is not null then greatest(0, any_value(replay.replay_ns)) end as replay_ns,
  any_value(whole.next_limit) as next_limit
from part
inner join total on total.rank = part.rank
left join spread on spread.rank = part.rank and spread.cause = part.cause
left join replay on replay.rank = part.rank and replay.cause = part.cause
left join whole on whole.rank = part.rank and whole.cause = part.cause
group by part.rank, part.cause
order by part.rank, exclusive_ns desc
