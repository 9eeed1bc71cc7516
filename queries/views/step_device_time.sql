-- /// view
-- sentence = "Device time of each step, twice: of the work that the step launched, and of what ran during the step's wall time."
-- needs = ["device_event", "step", "launch"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- step = { type = "bigint", doc = "Step." }
-- device = { type = "bigint", doc = "Device number." }
-- step_dur_ns = { type = "bigint", unit = "ns", doc = "Wall time of the step." }
-- launched_busy_ns = { type = "bigint", unit = "ns", doc = "Union of the device operations that the step launched, whenever they ran; 0 when none is linked to it." }
-- wall_busy_ns = { type = "bigint", unit = "ns", doc = "Time within the step's wall time with at least one device operation running." }
-- wall_idle_ns = { type = "bigint", unit = "ns", doc = "Time within the step's wall time with none running." }
-- wall_busy_share = { type = "double", unit = "share", doc = "wall_busy_ns of step_dur_ns." }
-- ///
with device_step as (
  select step.rank, step.step, step.ts_ns, step.dur_ns, used.device
  from step
  join (select distinct rank, device from device_event) as used on used.rank = step.rank
),
launched as (
  -- Running maximum of ends: each operation adds what lies beyond the latest end before it.
  select rank, step, device, sum(greatest(end_ns - greatest(ts_ns, coalesce(covered_ns, ts_ns)), 0))::bigint as busy_ns
  from (
    select
      rank, step, device, ts_ns, ts_ns + busy_dur_ns as end_ns,
      max(ts_ns + busy_dur_ns) over (
        partition by rank, step, device order by ts_ns rows between unbounded preceding and 1 preceding
      ) as covered_ns
    from launch
    where step is not null
  )
  group by rank, step, device
),
edge as (
  select rank, device, ts_ns as at_ns, 1 as change from device_event
  union all
  select rank, device, ts_ns + busy_dur_ns as at_ns, -1 as change from device_event
  union all
  -- Step boundaries cut the busy time without changing it.
  select rank, device, unnest([ts_ns, ts_ns + dur_ns]) as at_ns, 0 as change from device_step
),
level as (
  select rank, device, at_ns, lead(at_ns) over running - at_ns as len_ns, sum(change) over running as running
  from edge
  window running as (partition by rank, device order by at_ns rows unbounded preceding)
),
wall as (
  select level.rank, device_step.step, level.device, sum(level.len_ns)::bigint as busy_ns
  from level
  asof join device_step
    on device_step.rank = level.rank and device_step.device = level.device and level.at_ns >= device_step.ts_ns
  where level.running > 0 and level.at_ns < device_step.ts_ns + device_step.dur_ns
  group by level.rank, device_step.step, level.device
)
select
  rank, step, device, dur_ns as step_dur_ns,
  coalesce(launched.busy_ns, 0) as launched_busy_ns,
  coalesce(wall.busy_ns, 0) as wall_busy_ns,
  dur_ns - coalesce(wall.busy_ns, 0) as wall_idle_ns,
  coalesce(wall.busy_ns, 0) / nullif(dur_ns, 0) as wall_busy_share
from device_step
left join launched using (rank, step, device)
left join wall using (rank, step, device)
order by rank, step, device
