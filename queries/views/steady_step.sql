-- /// view
-- sentence = "The steps that statistics use: complete ones, without a first step that is slower by far (warm-up) or that the device entered with a backlog, and without a lone slow step."
-- needs = ["step"]
-- small = true
--
-- [columns.rank]
-- type = "bigint"
-- doc = "Rank."
-- [columns.step]
-- type = "bigint"
-- doc = "Number of the step."
-- [columns.ts_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Start of its wall time."
-- [columns.dur_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Wall time."
-- ///
-- Warm-up: the first of at least four steps, when it takes more than twice the median of the others.
-- Backlog: the first of at least three steps, when more than a tenth of it is device work launched before it: the capture
-- cuts such a step, because the host was ahead when it began.
-- Lone slow step: of at least four steps the only one above twice the median. One event shows no rate: an epoch boundary,
-- a first recompilation. Periodic causes have two or more such steps in the window, and stay.
with complete_step as (
  select rank, step, ts_ns, dur_ns, coalesce(backlog_ns, 0) as backlog_ns, row_number() over (partition by rank order by ts_ns) as position, count(*) over (partition by rank) as steps
  from step
  where complete
),
typical as (
  select rank, median(dur_ns) as median_ns
  from complete_step
  where position > 1
  group by rank
),
settled as (
  select complete_step.*, typical.median_ns, dur_ns > 2 * typical.median_ns as slow
  from complete_step
  left join typical using (rank)
  where
    not (position = 1 and steps >= 4 and dur_ns > 2 * typical.median_ns)
    and not (position = 1 and steps >= 3 and backlog_ns > 0.1 * dur_ns)
),
counted as (select *, count(*) filter (where slow) over (partition by rank) as slow_steps from settled)
select rank, step, ts_ns, dur_ns
from counted
where not (coalesce(slow, false) and slow_steps = 1 and steps >= 4)
order by rank, ts_ns
