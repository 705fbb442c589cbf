-- Another table answers for a version, if the one that it was made beside still does. Locks: the row.
-- $1: log, $2: name, $3: version, $4: the old table, $5: the new one, $6: checkpoint, $7: first event passed over,
-- $8: why.
update es.projections
set table_name = $5, checkpoint = $6, state = 'active', degraded = $7::bigint is not null, stopped_at = $7,
    stop_reason = $8
where log_id = $1 and name = $2 and version = $3 and table_name = $4 and state in ('active', 'stopped')
