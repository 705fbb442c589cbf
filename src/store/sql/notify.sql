-- Tells of a new head. $1: log:position. Locks: the notification queue, at its commit.
select pg_catalog.pg_notify('es_log', $1)
