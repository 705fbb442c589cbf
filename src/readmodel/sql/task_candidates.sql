-- Tasks waiting for runtimes, best first. {table}: task_status. $1: workspace, $2: runtimes, $3: at most, $4: not of
-- these agents. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and t.status = 'queued' and t.runtime = any($2) and t.agent <> all($4)
order by t.priority desc, t.queued_at, t.task_id limit $3
