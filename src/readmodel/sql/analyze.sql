-- {table}: a table that was just filled. Locks: its statistics.
analyze {table}
