-- /// view
-- sentence = "The segments of the critical path that verdicts judge: those of the steady steps, or the whole path when a rank has no complete step."
-- needs = ["critical_path", "steady_step"]
-- small = true
--
-- [columns.rank]
-- type = "bigint"
-- doc = "Rank."
-- [columns.step]
-- type = "bigint"
-- doc = "Step, NULL when the rank has no steps."
-- [columns.ts_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Start."
-- [columns.dur_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Time on the path."
-- [columns.hidden_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Part of it during which a device operation ran although the path was elsewhere."
-- [columns.cause]
-- type = "varchar"
-- doc = "Class id."
-- [columns.resource]
-- type = "varchar"
-- doc = "Host thread or device stream."
-- [columns.detail]
-- type = "varchar"
-- doc = "What the resource did."
-- [columns.scope]
-- type = "varchar"
-- doc = "Innermost range or Python frame around it."
-- [columns.event_id]
-- type = "bigint"
-- doc = "Event of the segment."
-- ///
with stepped as (select distinct rank from steady_step)
select
  critical_path.rank,
  critical_path.step,
  critical_path.ts_ns,
  critical_path.dur_ns,
  critical_path.hidden_ns,
  critical_path.cause,
  critical_path.resource,
  critical_path.detail,
  critical_path.scope,
  critical_path.event_id
from critical_path
left join stepped on stepped.rank = critical_path.rank
left join steady_step on steady_step.rank = critical_path.rank and steady_step.step = critical_path.step
where stepped.rank is null or steady_step.step is not null
