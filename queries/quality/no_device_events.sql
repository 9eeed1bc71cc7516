-- /// check
-- order = 20
-- why = "Missing device rows look like an idle device. A launch without any device row means that the capture lost them; a CPU-only loop is complete without."
-- effect = "blocks any verdict when device work was launched"
--
-- [fix]
-- torch = "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
-- nsys = "nsys profile -t cuda,nvtx,osrt (and an export without --tables or --times)"
-- ///
select
  rank,
  case when devices_listed > 0 then 'devices are listed but no device event was captured' else 'no device event was captured' end
  || ': device figures are unknown (not zero), the path is that of the host' as sentence,
  coalesce(launches, 0) > 0 as lowers,
  coalesce(launches, 0) > 0 as blocks
from rank_fact
where device_events = 0 and (host_events > 0 or ranges > 0 or python_frames > 0)
