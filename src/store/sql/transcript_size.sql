-- How much there is. $1: log, $2: task, $3: generation. Locks: none.
select count(*) as messages, coalesce(sum(octet_length(body::text)), 0)::bigint as bytes,
    coalesce(max(seq), 0) as last_seq
from es.transcripts
where log_id = $1 and task_id = $2 and generation = $3
