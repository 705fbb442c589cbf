-- The tables of the read models that are kept or built. $1: log. Locks: none.
select name, version, table_name from es.projections where log_id = $1 and state <> 'retired'
