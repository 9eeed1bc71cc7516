-- Every name with the phases and categories under which it occurs.
select distinct ph, cat, name
from read_parquet($parts)
where name is not null and ph in ('X', 'i', 'I', 'B')
order by all
