-- The last ended run of a conversation with a session. {table}: task_status. Locks: none.
-- $1: workspace, $2: issue, $3: agent, $4: runtime, $5: the task that asks.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and t.issue = $2 and t.agent = $3 and t.runtime = $4 and t.task_id <> $5
    and t.completed_at is not null and t."row"->>'session_id' is not null
order by t.run desc limit 1
