-- /// rule
-- title = "Many small copies to the device in each step"
-- bottleneck = "h2d"
-- needs = ["step", "step_cause", "device_event"]
-- why = "A copy of a few kB costs as much host time as one of a MB: many of them in a step are better packed into one."
--
-- [params.min_share]
-- default = 0.05
-- unit = "share"
-- doc = "Copies that are exposed for less than this share of the steps cost less than repeated runs differ by."
--
-- [params.min_copies]
-- default = 10
-- doc = "Fewer copies a step than this are one per input, which is normal."
--
-- [params.max_bytes]
-- default = 65536
-- unit = "bytes"
-- doc = "Up to this size a copy takes about as long as an empty one."
--
-- [evidence.share]
-- type = "double"
-- unit = "share"
-- doc = "Exposed time of host-to-device copies divided by the time of the steady steps."
--
-- [evidence.copies_per_step]
-- type = "double"
-- doc = "Host-to-device copies of at most max_bytes in a steady step (mean)."
--
-- [evidence.mean_bytes]
-- type = "bigint"
-- unit = "bytes"
-- doc = "Their mean size; NULL without such copies."
--
-- [[experiment]]
-- when = "true"
-- hypothesis = "{copies_per_step} copies of {mean_bytes} a step cost {cost_ns} in all; one copy of the same bytes costs about as much as one of them."
-- change = "pack the {copies_per_step} small tensors of a step into one pinned buffer, copy that once, and take views of it on the device."
-- kind = "system optimization"
-- invariants = ["values, shapes and dtypes of every tensor on the device", "data order"]
-- guards = ["input_equivalence"]
-- measure = ["profiler off; 5 warm-up steps; at least 3 windows of 20 updates of both variants, taking turns"]
-- stop = "the median update does not improve beyond the spread of the base windows"
-- rollback = "undo the one change"
-- ///
with steps as (
  select rank, count(*) as steps, sum(dur_ns) as dur_ns
  from steady_step
  group by rank
),
copies as (
  select device_event.rank, count(*) as copies, avg(device_event.bytes)::bigint as mean_bytes
  from device_event
  inner join steady_step
    on
      steady_step.rank = device_event.rank
      and device_event.ts_ns >= steady_step.ts_ns
      and device_event.ts_ns < steady_step.ts_ns + steady_step.dur_ns
  where device_event.copy_kind = 'h2d' and device_event.bytes <= $max_bytes
  group by device_event.rank
),
exposed as (
  select step_cause.rank, sum(step_cause.exclusive_ns)::bigint as cost_ns
  from step_cause
  semi join steady_step using (rank, step)
  where step_cause.cause = 'h2d'
  group by step_cause.rank
),
fact as (
  select
    steps.rank,
    coalesce(exposed.cost_ns, 0) as cost_ns,
    coalesce(exposed.cost_ns, 0) / steps.dur_ns::double as share,
    coalesce(copies.copies, 0) / steps.steps::double as copies_per_step,
    copies.mean_bytes
  from steps
  left join copies on copies.rank = steps.rank
  left join exposed on exposed.rank = steps.rank
)
select
  rank,
  null::bigint as step,
  case when share >= $min_share and copies_per_step >= $min_copies then 'hit' else 'clear' end as status,
  cost_ns,
  case
    when copies_per_step < $min_copies then 'few small copies'
    when share < $min_share then 'many small copies, and hardly any of their time is exposed'
    else 'many small copies, and their time is exposed'
  end as reason,
  share,
  copies_per_step,
  mean_bytes
from fact
