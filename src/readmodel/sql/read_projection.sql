-- One version of a read model. $1: log, $2: name, $3: version. Locks: none.
select state, table_name, checkpoint, stopped_at, stop_reason, degraded
from es.projections
where log_id = $1 and name = $2 and version = $3
