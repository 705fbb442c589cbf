-- $1: log. Locks: none.
select count(*) from es.projections where log_id = $1 and state = 'building'
