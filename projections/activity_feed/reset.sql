-- Read model activity_feed: empties the table before a rebuild into it.
-- Locks: every row; only a table that no version in use names is reset.
delete from {table}
