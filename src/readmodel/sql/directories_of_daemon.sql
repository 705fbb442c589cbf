-- Directories held by a daemon's tasks. {table}: directory_queue. $1: workspace, $2: daemon. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and t.holder is not null and t."row"->'holder'->>'daemon' = $2
order by t.directory_id
