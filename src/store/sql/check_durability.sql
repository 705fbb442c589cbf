-- The first setting, if any, by which acknowledged work could be lost. Locks: none.
select name, setting
from pg_catalog.pg_settings
where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off'
order by name
limit 1
