-- Transcripts whose last message is older, oldest tasks first. $1: log, $2: so many days, $3, $4: behind this task's
-- claim, $5: at most so many. Locks: none.
-- A task's id holds its time: partitions and index ranges of younger tasks aren't looked at.
with cut as materialized (
    select es.now() - make_interval(days => $2::int) as moment
)
select min(t.workspace_id::text)::uuid as workspace_id, t.task_id, t.generation, count(*) as messages
from es.transcripts t
where t.log_id = $1 and (t.task_id, t.generation) > ($3, $4)
    and t.task_id < (select es.uuid_floor(cut.moment) from cut)
    and not exists (
        select from es.gone_transcripts g
        where g.log_id = $1 and g.task_id = t.task_id and g.generation = t.generation)
group by t.task_id, t.generation
having max(t.recorded_at) < (select cut.moment from cut)
order by t.task_id, t.generation
limit $5
