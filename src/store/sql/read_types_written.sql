-- Every type that events have. $1: log. Locks: none.
select event_type, schema_version
from es.events
where log_id = $1
group by event_type, schema_version
