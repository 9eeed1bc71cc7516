-- Calls of a process that work on several devices: those whose device work is all on another device than this rank's.
select process, correlation_id
from read_parquet($operations)
where process = $process and correlation_id is not null
group by process, correlation_id
having not bool_or(device = $device)
