-- What is odd about the device operations that were kept.
select
  device.device,
  count(*) as operations,
  count(*) filter (device.launch_id is null) as unlinked,
  count(*) filter (device.launch_id is not null and device.ts_ns < call.ts_ns) as before_launch,
  min(device.ts_ns - call.ts_ns) as smallest_delay_ns,
  count(*) filter (device.busy_dur_ns < device.dur_ns) as overrunning,
  max_by(device.name, device.dur_ns) filter (device.busy_dur_ns < device.dur_ns) as overrunning_name
from read_parquet($operations) device
left join read_parquet($calls) call on device.launch_id = call.event_id
group by device.device
order by device.device
