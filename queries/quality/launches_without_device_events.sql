-- /// check
-- order = 80
-- why = "Dropped device records leave holes that read as idle."
-- effect = "lowers the confidence"
--
-- [fix]
-- torch = "a shorter window (fewer active steps)"
-- nsys = "a shorter window, or a larger --cuda-flush-interval"
--
-- [params]
-- lossy_share = { default = 0.05, unit = "share", doc = "From this share of launches without device work on, device figures of a step say little." }
-- ///
select
  rank,
  launches_without_device_event || ' of ' || launches || ' launches have no device work in the capture: device idle time is not measured'
    as sentence,
  true as lowers,
  false as blocks
from rank_fact
where device_events > 0 and steps_without_device_event = 0 and launches_without_device_event > $lossy_share * launches
