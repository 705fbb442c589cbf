-- When a position was recorded. $1: log, $2: position. Locks: none.
select recorded_at from es.log_blocks where log_id = $1 and last_seq >= $2 order by last_seq limit 1
