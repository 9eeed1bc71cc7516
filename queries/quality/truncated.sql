-- /// check
-- order = 60
-- why = "A cut file parses up to the cut; host rows come first, so the rest of it reads as idle."
-- effect = "lowers the confidence"
--
-- [fix]
-- torch = "record again and let the export finish"
-- nsys = "record again and let the export finish"
-- ///
select rank, 'the file ends before its events do: what is missing is unknown, not idle' as sentence, true as lowers, false as blocks
from rank_fact
where truncated
