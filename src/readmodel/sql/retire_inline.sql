-- Inline tables that this build doesn't keep fall behind now. $1: log, $2: tables kept. Locks: the rows.
update es.projections set state = 'retired'
where log_id = $1 and mode = 'inline' and state <> 'retired' and not table_name = any($2)
