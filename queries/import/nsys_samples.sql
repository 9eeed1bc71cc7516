-- CPU samples with their innermost function; a sample of no cycles is none.
select sample.globalTid, sample.start, sample.cpu, frame.symbol
from read_parquet($samples) sample
left join read_parquet($frames) frame on sample.id = frame.id
where coalesce(sample.cpuCycles, 1) > 0
