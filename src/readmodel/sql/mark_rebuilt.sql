-- $1: log, $2: name, $3: version, $4: position. Locks: the row.
update es.projections
set state = 'active', checkpoint = $4, stopped_at = null, stop_reason = null, degraded = false
where log_id = $1 and name = $2 and version = $3 and state in ('active', 'stopped')
