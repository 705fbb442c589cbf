-- The last position recorded at or before a time. $1: log, $2: time. Locks: none.
select coalesce(max(last_seq), 0)::bigint from es.log_blocks where log_id = $1 and recorded_at <= $2
