-- A version answers from now on. $1: log, $2: name, $3: version, $4: checkpoint. Locks: the row.
update es.projections
set state = case when stopped_at is null or degraded then 'active' else 'stopped' end, checkpoint = $4
where log_id = $1 and name = $2 and version = $3
