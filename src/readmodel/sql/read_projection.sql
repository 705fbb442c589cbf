-- One version of a read model. $1: log, $2: name, $3: version. Locks: none.
select state, checkpoint, stopped_at, stop_reason
from es.projections
where log_id = $1 and name = $2 and version = $3
