-- The table that answers for a read model. $1: log, $2: name. Locks: none.
select table_name, checkpoint from es.projections where log_id = $1 and name = $2 and state in ('active', 'stopped')
