-- The head with its hash. $1: log. Locks: none.
select last_seq, last_block_hash, last_recorded_at from es.log_head where log_id = $1
