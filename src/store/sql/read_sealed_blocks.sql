-- The hashes of the blocks that end at these positions. $1: log, $2: positions. Locks: none.
select last_seq, hash from es.log_blocks where log_id = $1 and last_seq = any($2)
