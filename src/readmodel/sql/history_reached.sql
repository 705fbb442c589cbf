-- The position as of which every row history can answer. $1: log, $2: pattern of their names. Locks: none.
select coalesce(min(checkpoint), 0)::bigint from es.projections
where log_id = $1 and name like $2 and state in ('active', 'stopped')
