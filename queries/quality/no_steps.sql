-- /// check
-- order = 100
-- why = "Without a step marker there is no step time, and the window may hold warm-up or evaluation."
-- effect = "lowers the confidence"
--
-- [fix]
-- torch = "profile(schedule=schedule(wait=1, warmup=1, active=6)) and prof.step() after each optimizer update"
-- nsys = "an NVTX range 'step N' around each optimizer update"
-- ///
select
  rank, 'no step marker: step statistics are unavailable and the window is judged as a whole' as sentence, true as lowers, false as blocks
from rank_fact
where steps = 0
