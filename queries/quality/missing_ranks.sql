-- /// check
-- order = 130
-- why = "A late rank may be among those that were not passed."
-- effect = "is said, and lowers nothing"
--
-- [fix]
-- torch = "record the same steps on every rank and pass all files"
-- nsys = "record the same steps on every rank and pass all files"
-- ///
select
  rank,
  ranks_present || ' of ' || world_size || ' ranks are present: a late rank may be among the missing' as sentence,
  false as lowers,
  false as blocks
from rank_fact
where ranks_present > 1 and ranks_present < world_size
