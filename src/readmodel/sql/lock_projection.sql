-- Keeps a follower from moving on until the end of the transaction. $1: log, $2: name, $3: version. Locks: the row.
select checkpoint from es.projections where log_id = $1 and name = $2 and version = $3 for update
