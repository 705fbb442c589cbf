-- Whether a database of that name exists. $1: name. Locks: none.
select 1 from pg_catalog.pg_database where datname = $1
