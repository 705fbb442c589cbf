-- Lets nobody else write versions until the transaction ends; readers go on. {table}: a history. Locks: the table.
lock table {table} in share row exclusive mode
