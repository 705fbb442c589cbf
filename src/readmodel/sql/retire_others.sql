-- Other versions stop answering. $1: log, $2: name, $3: version. Locks: the rows.
update es.projections set state = 'retired'
where log_id = $1 and name = $2 and version <> $3 and state <> 'retired'
