-- $1: log, $2: name, $3: version, $4: mode, $5: table, $6: checkpoint, $7: position of an event that can't
-- be folded, $8: why. Locks: the row.
insert into es.projections as p
    (log_id, name, version, mode, state, table_name, checkpoint, stopped_at, stop_reason)
values ($1, $2, $3, $4, 'building', $5, $6, $7, $8)
on conflict (log_id, name, version) do update
set mode = excluded.mode, state = 'building', table_name = excluded.table_name, degraded = false,
    checkpoint = excluded.checkpoint, stopped_at = excluded.stopped_at, stop_reason = excluded.stop_reason
