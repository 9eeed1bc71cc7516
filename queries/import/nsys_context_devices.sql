-- Device of each process and context, as the device work tells: synchronisation records may say 0 for any of them.
select process, context, any_value(device) as device
from read_parquet($operations)
where context is not null
group by process, context
having count(distinct device) = 1
