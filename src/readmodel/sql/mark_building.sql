-- A version is being built. $1: log, $2: name, $3: version, $4: mode, $5: table. Locks: the row.
insert into es.projections as p (log_id, name, version, mode, state, table_name)
values ($1, $2, $3, $4, 'building', $5)
on conflict (log_id, name, version) do update
set mode = excluded.mode, state = 'building', table_name = excluded.table_name, degraded = false,
    checkpoint = 0, stopped_at = null, stop_reason = null
