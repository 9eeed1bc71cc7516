-- /// view
-- sentence = "A device operation and the call that launched it; operations whose launch is not known are not here."
-- needs = ["device_event", "host_event", "_step_host"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- step = { type = "bigint", doc = "Step in which the host launched it; NULL outside all steps." }
-- event_id = { type = "bigint", doc = "The device_event." }
-- launch_id = { type = "bigint", doc = "The host_event that launched it; kernels of a CUDA graph share one." }
-- device = { type = "bigint", doc = "Device number." }
-- stream = { type = "bigint", doc = "Stream number." }
-- kind = { type = "varchar", doc = "Kind of the device operation." }
-- class = { type = "varchar", doc = "Class of the device operation." }
-- name = { type = "varchar", doc = "Name of the device operation." }
-- launch_name = { type = "varchar", doc = "Name of the call." }
-- pid = { type = "bigint", doc = "Process that launched it." }
-- tid = { type = "bigint", doc = "Thread that launched it." }
-- launch_ts_ns = { type = "bigint", unit = "ns", doc = "Start of the call." }
-- launch_dur_ns = { type = "bigint", unit = "ns", doc = "Duration of the call." }
-- ts_ns = { type = "bigint", unit = "ns", doc = "Start of the device operation." }
-- busy_dur_ns = { type = "bigint", unit = "ns", doc = "Duration of the device operation." }
-- delay_ns = { type = "bigint", unit = "ns", doc = "From the start of the call to the start of the operation; NULL when the clocks contradict each other." }
-- clock_fault_ns = { type = "bigint", unit = "ns", doc = "How far the operation starts before its own call; NULL when it does not." }
-- ///
with pair as (
  select
    device_event.rank, device_event.event_id, device_event.launch_id, device_event.device, device_event.stream, device_event.kind,
    device_event.class, device_event.name, host_event.name as launch_name, host_event.pid, host_event.tid,
    host_event.ts_ns as launch_ts_ns, host_event.dur_ns as launch_dur_ns, device_event.ts_ns, device_event.busy_dur_ns,
    device_event.ts_ns - host_event.ts_ns as raw_ns
  from device_event
  join host_event on host_event.rank = device_event.rank and host_event.event_id = device_event.launch_id
)
select
  pair.rank,
  case when pair.launch_ts_ns < _step_host.until_ns then _step_host.step end as step,
  pair.event_id, pair.launch_id, pair.device, pair.stream, pair.kind, pair.class, pair.name, pair.launch_name, pair.pid, pair.tid,
  pair.launch_ts_ns, pair.launch_dur_ns, pair.ts_ns, pair.busy_dur_ns,
  case when pair.raw_ns >= 0 then pair.raw_ns end as delay_ns,
  case when pair.raw_ns < 0 then -pair.raw_ns end as clock_fault_ns
from pair
asof left join _step_host on _step_host.rank = pair.rank and pair.launch_ts_ns >= _step_host.from_ns
