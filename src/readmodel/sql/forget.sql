-- $1: log, $2: name, $3: version. Locks: the row.
delete from es.projections where log_id = $1 and name = $2 and version = $3 and state = 'retired'
