-- A daemon's claimed tasks. {table}: task_status. $1: workspace, $2: daemon. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and t.daemon = $2 and t.status in ('dispatched', 'waiting_local_directory', 'running')
order by t.queued_at, t.task_id
