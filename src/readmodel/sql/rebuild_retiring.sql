-- A rebuild is over and recorded; its old table waits. $1: log, $2: name. Locks: the row.
update es.rebuilds set state = 'retiring' where log_id = $1 and name = $2 and state = 'swapped'
returning old_table
