-- /// check
-- order = 110
-- why = "A median and a spread of fewer steps say nothing. Confidence counts the steps by itself."
-- effect = "is said, and lowers nothing here"
--
-- [fix]
-- torch = "profile(schedule=schedule(wait=1, warmup=1, active=6)) and prof.step() after each optimizer update"
-- nsys = "an NVTX range 'step N' around each optimizer update"
--
-- [params]
-- enough = { default = 3, doc = "Fewer steady steps have no spread to speak of." }
-- ///
select
  rank,
  'step statistics are unknown: ' || steady_steps || ' steady step' || case when steady_steps = 1 then '' else 's' end
  || ', ' || $enough || ' are needed' as sentence,
  false as lowers,
  false as blocks
from rank_fact
where steps > 0 and steady_steps < $enough
