-- A task by its name. {table}: task_status. $1: workspace, $2: name. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and t.name = $2
