-- $1: log, $2: ids. Locks: the rows deleted.
select es.erase_contents($1, $2)
