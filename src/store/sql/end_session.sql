-- $1: hash. Locks: the row.
delete from es.sessions where hash = $1
