-- Messages after a seq, in order; none of a transcript that is gone. $1: log, $2: task, $3: generation, $4: after,
-- $5: at most so many, $6: recorded up to then, null for all. Locks: none.
select seq, body::text as body, recorded_at
from es.transcripts
where log_id = $1 and task_id = $2 and generation = $3 and seq > $4
    and ($6::timestamptz is null or recorded_at <= $6)
    and not exists (
        select from es.gone_transcripts g where g.log_id = $1 and g.task_id = $2 and g.generation = $3)
order by seq
limit $5
