-- /// check
-- order = 40
-- why = "Calls of the driver alone leave the time between them without a name."
-- effect = "lowers the confidence"
--
-- [fix]
-- torch = "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
-- nsys = "NVTX ranges around the parts of a step, or torch.autograd.profiler.emit_nvtx()"
-- ///
select
  rank,
  'the host side holds calls of the driver and no operators: what the host does between them is unknown' as sentence,
  true as lowers,
  false as blocks
from rank_fact
where device_events > 0 and host_events > 0 and ops = 0
