-- The transcripts that a task has. $1: log, $2: task. Locks: none.
select t.workspace_id, t.task_id, t.generation, count(*) as messages
from es.transcripts t
where t.log_id = $1 and t.task_id = $2 and not exists (
    select from es.gone_transcripts g
    where g.log_id = $1 and g.task_id = t.task_id and g.generation = t.generation)
group by t.workspace_id, t.task_id, t.generation
order by t.generation
