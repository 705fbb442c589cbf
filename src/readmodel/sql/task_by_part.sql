-- Tasks whose id begins or ends so. {table}: task_status. $1: workspace, $2, $3: patterns. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1
    and (replace(t.task_id::text, '-', '') like $2 or replace(t.task_id::text, '-', '') like $3)
order by t.queued_at desc, t.task_id desc limit 10
