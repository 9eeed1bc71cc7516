-- /// check
-- order = 50
-- why = "Logging, saving and garbage collection are Python: without stacks or ranges they are gaps."
-- effect = "is said, and lowers nothing"
--
-- [fix]
-- torch = "profile(with_stack=True) (not while compiling: traces grow to GB)"
-- nsys = "NVTX ranges around data loading, logging and saving"
-- ///
select rank, 'without Python stacks, time that no operator or range covers has no name' as sentence, false as lowers, false as blocks
from rank_fact
where host_events > 0 and python_frames = 0
