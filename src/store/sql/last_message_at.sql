-- When a run last said something. $1: log, $2: task, $3: generation, $4: up to that time, null: now. Locks: none.
select recorded_at
from es.transcripts
where log_id = $1 and task_id = $2 and generation = $3 and ($4::timestamptz is null or recorded_at <= $4)
order by seq desc
limit 1
