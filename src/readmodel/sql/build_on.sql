-- A build has come further. $1: log, $2: name, $3: version, $4: checkpoint, $5: position of the first event that
-- could not be folded, $6: why, $7: whether it was passed over. Locks: the row.
update es.projections
set checkpoint = $4, stopped_at = coalesce(stopped_at, $5), stop_reason = coalesce(stop_reason, $6),
    degraded = degraded or $7
where log_id = $1 and name = $2 and version = $3 and state = 'building'
