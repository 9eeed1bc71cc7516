-- /// view
-- sentence = "A stretch between the first and the last operation of a device in which nothing runs on any of its streams."
-- needs = ["device_event"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- device = { type = "bigint", doc = "Device number." }
-- ts_ns = { type = "bigint", unit = "ns", doc = "Start." }
-- dur_ns = { type = "bigint", unit = "ns", doc = "Duration." }
-- next_event_id = { type = "bigint", doc = "The device_event that ends it." }
-- ///
select rank, device, covered_ns as ts_ns, ts_ns - covered_ns as dur_ns, event_id as next_event_id
from (
  select
    rank, device, event_id, ts_ns,
    max(ts_ns + busy_dur_ns) over (
      partition by rank, device order by ts_ns, event_id rows between unbounded preceding and 1 preceding
    ) as covered_ns
  from device_event
)
where ts_ns > covered_ns
order by rank, device, ts_ns
