-- A rebuild that was begun. $1: log, $2: name. Locks: none.
select version, state, table_name, old_table, checkpoint, passed_over, first_passed, reason
from es.rebuilds
where log_id = $1 and name = $2
