-- Messages after a seq, in order. $1: log, $2: task, $3: generation, $4: after, $5: at most so many. Locks: none.
select seq, body::text as body, recorded_at
from es.transcripts
where log_id = $1 and task_id = $2 and generation = $3 and seq > $4
order by seq
limit $5
