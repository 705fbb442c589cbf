-- Rebuilds whose old table waits to be dropped. $1: log. Locks: none.
select name, old_table from es.rebuilds where log_id = $1 and state = 'retiring'
