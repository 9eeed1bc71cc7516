-- /// view
-- sentence = "How the time of one device divides: unions of intervals over all its streams, never sums."
-- needs = ["device_event"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- device = { type = "bigint", doc = "Device number." }
-- span_ns = { type = "bigint", unit = "ns", doc = "From the first start to the last end of a device operation." }
-- busy_ns = { type = "bigint", unit = "ns", doc = "Time with at least one kernel, copy or memset running." }
-- compute_ns = { type = "bigint", unit = "ns", doc = "Time with a kernel that is no communication, a memset or a whole graph running." }
-- comm_ns = { type = "bigint", unit = "ns", doc = "Time with a communication kernel running (class comm of queries/names.csv)." }
-- memcpy_ns = { type = "bigint", unit = "ns", doc = "Time with a copy running." }
-- exposed_comm_ns = { type = "bigint", unit = "ns", doc = "Part of comm_ns without compute at the same time." }
-- exposed_memcpy_ns = { type = "bigint", unit = "ns", doc = "Part of memcpy_ns without compute or communication at the same time." }
-- ///
-- One sort and running counters: what runs between two neighbouring edges is known from the counters.
with operation as (
  select
    rank, device, ts_ns, ts_ns + busy_dur_ns as end_ns,
    case when kind = 'memcpy' then 'memcpy' when class = 'comm' then 'comm' else 'compute' end as part
  from device_event
),
edge as (
  select rank, device, part, ts_ns as at_ns, 1 as change from operation
  union all
  select rank, device, part, end_ns as at_ns, -1 as change from operation
),
level as (
  select
    rank, device, at_ns,
    lead(at_ns) over running - at_ns as len_ns,
    sum(case when part = 'compute' then change else 0 end) over running as compute,
    sum(case when part = 'comm' then change else 0 end) over running as comm,
    sum(case when part = 'memcpy' then change else 0 end) over running as memcpy
  from edge
  window running as (partition by rank, device order by at_ns rows unbounded preceding)
)
select
  rank,
  device,
  max(at_ns) - min(at_ns) as span_ns,
  coalesce(sum(len_ns) filter (where compute + comm + memcpy > 0), 0)::bigint as busy_ns,
  coalesce(sum(len_ns) filter (where compute > 0), 0)::bigint as compute_ns,
  coalesce(sum(len_ns) filter (where comm > 0), 0)::bigint as comm_ns,
  coalesce(sum(len_ns) filter (where memcpy > 0), 0)::bigint as memcpy_ns,
  coalesce(sum(len_ns) filter (where comm > 0 and compute = 0), 0)::bigint as exposed_comm_ns,
  coalesce(sum(len_ns) filter (where memcpy > 0 and compute = 0 and comm = 0), 0)::bigint as exposed_memcpy_ns
from level
group by rank, device
order by rank, device
