-- /// check
-- order = 30
-- why = "Without the host's side nothing says what the device waited for."
-- effect = "lowers the confidence"
--
-- [fix]
-- torch = "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
-- nsys = "nsys profile -t cuda,nvtx,osrt (and an export without --tables or --times)"
-- ///
select rank, 'no host event was captured: why the device waits is unknown' as sentence, true as lowers, false as blocks
from rank_fact
where device_events > 0 and host_events = 0
