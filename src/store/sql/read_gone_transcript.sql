-- Why a transcript is gone. $1: log, $2: task, $3: generation. Locks: none.
select position, days, gone_at from es.gone_transcripts where log_id = $1 and task_id = $2 and generation = $3
