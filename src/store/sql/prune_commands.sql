-- $1: log, $2: age in milliseconds. Locks: the rows deleted.
select es.prune_commands($1, es.now() - $2::bigint * interval '1 millisecond')
