-- /// check
-- order = 70
-- why = "Steps that launch work of which nothing is recorded read as idle."
-- effect = "lowers the confidence; blocks any verdict when it is most steps"
--
-- [fix]
-- torch = "a shorter window (fewer active steps)"
-- nsys = "a shorter window, or a larger --cuda-flush-interval"
--
-- [params]
-- most = { default = 0.5, unit = "share", doc = "Above this share of the steps, those that are left cannot stand for the run." }
-- ///
select
  rank,
  steps_without_device_event || ' of ' || steps || ' steps launch device work of which the capture holds nothing' as sentence,
  true as lowers,
  steps_without_device_event > $most * steps as blocks
from rank_fact
where device_events > 0 and steps_without_device_event > 0
