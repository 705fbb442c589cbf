-- Stored results of commands. $1: log, $2: ids. Locks: none.
select command_id, fingerprint, outcome, position, event_count, result
from es.commands
where log_id = $1 and command_id = any($2)
