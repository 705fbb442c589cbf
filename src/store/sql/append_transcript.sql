-- Adds messages; those already there stay as they are, and to a transcript that is gone nothing is added.
-- Locks: none that matter.
-- $1: log, $2: task, $3: generation, $4: workspace, $5: seqs, $6: bodies (JSON texts).
insert into es.transcripts (log_id, task_id, generation, seq, workspace_id, body, recorded_at)
select $1, $2, $3, m.seq, $4, m.body::json, es.now()
from unnest($5::int[], $6::text[]) m(seq, body)
where not exists (
    select from es.gone_transcripts g where g.log_id = $1 and g.task_id = $2 and g.generation = $3)
on conflict do nothing
