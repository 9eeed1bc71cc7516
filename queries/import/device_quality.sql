-- What is odd about the device operations that were kept. An operation without a launch misses one only when it starts
-- after the first call of the capture ($first_launch): before it, what was launched earlier still runs.
select
  count(*) filter (launch_id is null and ts_ns >= $first_launch) as unlinked,
  min(name) filter (launch_id is null and ts_ns >= $first_launch) as unlinked_name,
  count(*) filter (launch_id is null and (ts_ns >= $first_launch) is not true) as earlier,
  min(name) filter (launch_id is null and (ts_ns >= $first_launch) is not true) as earlier_name,
  count(*) filter (busy_dur_ns < dur_ns) as overrunning,
  max_by(name, dur_ns) filter (busy_dur_ns < dur_ns) as overrunning_name,
  count(*) filter (args like '%"stream":%"stream":%' or args like '%"device":%"device":%') as repeated_keys
from read_parquet($operations)
