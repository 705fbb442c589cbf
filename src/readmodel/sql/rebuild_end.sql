-- Forgets a rebuild. $1: log, $2: name. Locks: the row.
delete from es.rebuilds where log_id = $1 and name = $2
