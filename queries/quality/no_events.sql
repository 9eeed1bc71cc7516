-- /// check
-- order = 10
-- why = "A capture of markers alone parses, and would read as a loop that does nothing."
-- effect = "blocks any verdict"
--
-- [fix]
-- torch = "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
-- nsys = "nsys profile -t cuda,nvtx,osrt (and an export without --tables or --times)"
-- ///
select
  rank,
  'the capture holds no work of host or device: what the time was spent on is unknown' as sentence,
  true as lowers,
  true as blocks
from rank_fact
where device_events = 0 and host_events = 0 and ranges = 0 and python_frames = 0
