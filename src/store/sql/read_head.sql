-- The last position of a log. $1: log. Locks: none.
select last_seq from es.log_head where log_id = $1
