-- /// rule
-- title = "Device compute owns the step"
-- bottleneck = "compute"
-- needs = ["step_cause"]
-- why = "Kernels (on a capture without device work: operators) are what the step consists of."
--
-- [params]
-- min_share = { default = 0.05, unit = "share", doc = "Exposed time below this share of the steady steps is within what repeated runs of the same loop differ by." }
--
-- [evidence]
-- share = { type = "double", unit = "share", doc = "Exposed time of the class divided by the time of the steady steps." }
-- per_step_ns = { type = "bigint", unit = "ns", doc = "Exposed time of the class per steady step (mean); of the window when there are no steps." }
-- path_per_step_ns = { type = "bigint", unit = "ns", doc = "The same for all its time on the path, hidden or not." }
-- steps_hit = { type = "bigint", doc = "Steady steps in which the class has exposed time." }
-- top_class = { type = "varchar", doc = "Class of kernels with the most time." }
-- top_class_share = { type = "double", unit = "share", doc = "Its share of the kernel time." }
-- top_kernel = { type = "varchar", doc = "Kernel, or operator without device work, with the most time on the path." }
-- device_busy_share = { type = "double", unit = "share", doc = "Device busy time divided by its span; NULL without device work." }
-- not_advised = { type = "varchar", doc = "Advice that was considered and does not apply, with the reason." }
-- ///
with rank_cost as (select * from class_cost where cause = 'compute'),
by_class as (
  select rank, class, sum(busy_dur_ns) as spent
  from device_event
  where kind in ('kernel', 'graph') and class <> 'comm'
  group by rank, class
),
class_fact as (
  select rank, arg_max(class, spent) as top_class, max(spent) / nullif(sum(spent), 0) as top_class_share
  from by_class
  group by rank
),
top as (
  select rank, arg_max(detail, spent) as top_kernel
  from (select rank, detail, sum(dur_ns) as spent from path_part where cause = 'compute' group by rank, detail)
  group by rank
),
busy as (select rank, sum(busy_ns) / nullif(sum(span_ns), 0) as device_busy_share from device_time group by rank)
select
  rank_cost.rank,
  null::bigint as step,
  case when rank_cost.cost_share >= $min_share then 'hit' else 'clear' end as status,
  rank_cost.cost_ns,
  case when rank_cost.cost_share >= $min_share then 'arithmetic is what the step consists of' else 'compute is a small part of the step' end as reason,
  rank_cost.cost_share as share,
  rank_cost.per_step_ns,
  rank_cost.path_per_step_ns,
  rank_cost.steps_hit,
  class_fact.top_class,
  class_fact.top_class_share,
  top.top_kernel,
  busy.device_busy_share,
  null::varchar as not_advised
from rank_cost
left join class_fact on class_fact.rank = rank_cost.rank
left join top on top.rank = rank_cost.rank
left join busy on busy.rank = rank_cost.rank
