-- /// check
-- order = 120
-- why = "The late rank shows the least communication: one rank alone names the wrong cause."
-- effect = "is said, and lowers nothing"
--
-- [fix]
-- torch = "record the same steps on every rank and pass all files"
-- nsys = "record the same steps on every rank and pass all files"
-- ///
select rank, 'one rank cannot tell a slow network from waiting for a late rank' as sentence, false as lowers, false as blocks
from rank_fact
where ranks_present = 1 and (world_size > 1 or comm_events > 0)
