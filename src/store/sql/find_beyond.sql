-- Events after the end of the last block. $1: log, $2: that end, $3: at most. Locks: none.
select seq from es.events where log_id = $1 and seq > $2 order by seq limit $3
