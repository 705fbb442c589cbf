-- Empties a read model's table; readers see the old rows until the commit. Locks: the rows.
delete from {table};
