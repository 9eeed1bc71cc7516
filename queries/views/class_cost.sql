-- /// view
-- sentence = "What each class of bottleneck costs each rank; unlike path_cost it has a row for every class, because a class that is absent from the path costs nothing: that zero is measured."
-- needs = ["path_cost"]
-- small = true
--
-- [columns.rank]
-- type = "bigint"
-- doc = "Rank."
-- [columns.cause]
-- type = "varchar"
-- doc = "Class id."
-- [columns.cost_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Exposed time over the steady steps (of the window without steps)."
-- [columns.cost_share]
-- type = "double"
-- unit = "share"
-- doc = "cost_ns divided by the time of the steady steps."
-- [columns.per_step_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Exposed time per steady step (of the window without steps)."
-- [columns.path_per_step_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Time on the path per steady step, hidden or not."
-- [columns.steps_hit]
-- type = "bigint"
-- doc = "Steady steps in which the class has exposed time."
-- [columns.steps]
-- type = "bigint"
-- doc = "Steady steps; 0 when the rank has none."
-- ///
with every_rank as (select rank, any_value(steps) as steps from path_cost group by rank),
every_class (cause) as (
  values
  ('data_wait'), ('h2d'), ('d2h'), ('p2p'), ('exposed_comm'), ('straggler'), ('pipeline_bubble'), ('compile'), ('logging'), ('checkpoint'),
  ('host_bound'), ('host_other'), ('compute'), ('memory'), ('sync'), ('profiler'), ('unknown')
)
select
  every_rank.rank,
  every_class.cause,
  coalesce(path_cost.exclusive_ns, 0)::bigint as cost_ns,
  coalesce(path_cost.exclusive_share, 0)::double as cost_share,
  (coalesce(path_cost.exclusive_ns, 0) // greatest(every_rank.steps, 1))::bigint as per_step_ns,
  (coalesce(path_cost.path_ns, 0) // greatest(every_rank.steps, 1))::bigint as path_per_step_ns,
  coalesce(path_cost.steps_hit, 0)::bigint as steps_hit,
  every_rank.steps
from every_rank
cross join every_class
left join path_cost on path_cost.rank = every_rank.rank and path_cost.cause = every_class.cause
