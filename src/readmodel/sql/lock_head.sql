-- Stops appends until the end of the transaction. $1: log. Locks: the head row.
select es.lock_head($1)
