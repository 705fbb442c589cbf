-- Removes what an interrupted build or an older installation left. Locks: the table, which nobody reads.
set local lock_timeout = '5s'; drop table if exists {table}
