-- /// check
-- order = 90
-- why = "The longest operation is kept when others are dropped, and then seems to be all there is."
-- effect = "lowers the confidence"
--
-- [params]
-- dominant_share = { default = 0.5, unit = "share", doc = "Share of all device time in one operation from which on it is checked against missing others." }
-- lossy_share = { default = 0.05, unit = "share", doc = "From this share of launches without device work on, device figures of a step say little." }
-- ///
select rank, 'one device operation holds most of the device time while others are missing' as sentence, true as lowers, false as blocks
from rank_fact
where
  largest_device_share > $dominant_share
  and coalesce(launches_without_device_event, 0) > $lossy_share * greatest(coalesce(launches, 0), 1)
