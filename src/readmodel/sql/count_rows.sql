-- How many rows a read model has. {table}: its table. Locks: none.
select count(*) from {table}
