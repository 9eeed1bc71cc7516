-- /// view
-- sentence = "What the copies of each direction are and cost each rank: sizes, memory, speed, and what one change to them could save at most."
-- needs = ["class_cost", "device_event", "step"]
-- small = true
--
-- [columns.rank]
-- type = "bigint"
-- doc = "Rank."
-- [columns.cause]
-- type = "varchar"
-- doc = "Direction: h2d or d2h."
-- [columns.copies]
-- type = "bigint"
-- doc = "Copies in this direction, all of the capture; 0 when there are none."
-- [columns.copied_bytes]
-- type = "bigint"
-- unit = "bytes"
-- doc = "Bytes copied in this direction; NULL when no copy has a size."
-- [columns.pageable_share]
-- type = "double"
-- unit = "share"
-- doc = "Share of these bytes from or to pageable host memory; NULL when the capture does not tell."
-- [columns.large_bytes_per_s]
-- type = "double"
-- unit = "bytes/s"
-- doc = "Bytes per second while copies of 1 MiB or more ran: smaller ones are dominated by a fixed cost of 5-20 µs."
-- [columns.copies_per_step]
-- type = "double"
-- doc = "Copies per step, of the capture when there are no steps."
-- [columns.median_bytes]
-- type = "double"
-- unit = "bytes"
-- doc = "Median size; NULL when no copy has a size."
-- [columns.max_bytes]
-- type = "bigint"
-- unit = "bytes"
-- doc = "Largest size; NULL when no copy has a size."
-- [columns.best_bytes_per_s]
-- type = "double"
-- unit = "bytes/s"
-- doc = "Fastest single copy of 1 MiB or more: what the link has shown that it can do."
-- [columns.hidden_share]
-- type = "double"
-- unit = "share"
-- doc = "Share of the copying time of the device that is not exposed; NULL without such copies."
-- [columns.cost_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Exposed time of the direction over the steady steps (of the window without steps)."
-- [columns.cost_share]
-- type = "double"
-- unit = "share"
-- doc = "cost_ns divided by the time of the steady steps."
-- [columns.per_step_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "cost_ns per steady step (of the window without steps)."
-- [columns.path_per_step_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Time on the path per steady step, hidden or not."
-- [columns.steps_hit]
-- type = "bigint"
-- doc = "Steady steps with exposed time of the direction."
-- [columns.pageable_per_step_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Exposed time per step of every direction whose copies are mostly pageable; NULL when none is: one change pins them all."
-- [columns.pageable_cost_share]
-- type = "double"
-- unit = "share"
-- doc = "The same divided by the time of a steady step."
-- [columns.compute_per_step_ns]
-- type = "bigint"
-- unit = "ns"
-- doc = "Exposed compute per step: what a copy could hide behind."
-- ///
with device_copy as (
  select
    rank, copy_kind as cause, bytes, busy_dur_ns,
    case copy_kind when 'h2d' then src_memory else dst_memory end as host_memory
  from device_event
  where copy_kind in ('h2d', 'd2h')
),
fact as (
  select
    rank, cause, count(*) as copies, sum(bytes)::bigint as copied_bytes,
    coalesce(sum(bytes) filter (where host_memory = 'pageable'), 0) / nullif(sum(bytes) filter (where host_memory is not null), 0)
      as pageable_share,
    sum(bytes) filter (where bytes >= 1048576) * 1e9 / nullif(sum(busy_dur_ns) filter (where bytes >= 1048576), 0) as large_bytes_per_s,
    median(bytes) as median_bytes,
    max(bytes) as max_bytes,
    max(bytes * 1e9 / nullif(busy_dur_ns, 0)) filter (where bytes >= 1048576) as best_bytes_per_s,
    sum(busy_dur_ns) as copy_ns
  from device_copy
  group by rank, cause
),
pageable as (
  select class_cost.rank, sum(class_cost.per_step_ns)::bigint as per_step_ns, sum(class_cost.cost_share) as cost_share
  from class_cost
  join fact using (rank, cause)
  where fact.pageable_share > 0.5
  group by class_cost.rank
),
compute as (select rank, per_step_ns from class_cost where cause = 'compute'),
all_steps as (select rank, count(*) as steps from step group by rank)
select
  class_cost.rank, class_cost.cause, coalesce(fact.copies, 0)::bigint as copies, fact.copied_bytes, fact.pageable_share, fact.large_bytes_per_s,
  coalesce(fact.copies, 0) / coalesce(all_steps.steps, 1)::double as copies_per_step, fact.median_bytes, fact.max_bytes,
  fact.best_bytes_per_s::double as best_bytes_per_s,
  case when fact.copy_ns > 0 then greatest(0, 1 - class_cost.per_step_ns * coalesce(all_steps.steps, 1) / fact.copy_ns) end::double as hidden_share,
  class_cost.cost_ns, class_cost.cost_share, class_cost.per_step_ns, class_cost.path_per_step_ns, class_cost.steps_hit,
  pageable.per_step_ns as pageable_per_step_ns, pageable.cost_share as pageable_cost_share,
  compute.per_step_ns as compute_per_step_ns
from class_cost
left join fact using (rank, cause)
left join pageable using (rank)
left join all_steps using (rank)
join compute using (rank)
where class_cost.cause in ('h2d', 'd2h')
order by class_cost.rank, class_cost.cause
