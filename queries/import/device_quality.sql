-- What is odd about the device operations that were kept.
select
  count(*) filter (launch_id is null) as unlinked,
  min(name) filter (launch_id is null) as unlinked_name,
  count(*) filter (busy_dur_ns < dur_ns) as overrunning,
  max_by(name, dur_ns) filter (busy_dur_ns < dur_ns) as overrunning_name,
  count(*) filter (args like '%"stream":%"stream":%' or args like '%"device":%"device":%') as repeated_keys
from read_parquet($operations)
