-- Locks: one process migrates at a time; until the connection ends.
select pg_catalog.pg_advisory_lock(73088951590)
