-- One process rebuilds a read model at a time; until the connection ends. $1: log, $2: name. Locks: advisory.
select pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended('multica rebuild ' || $1::integer || ' ' || $2, 0))
