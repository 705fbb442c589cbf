-- A workspace's directories. {table}: directory_queue. $1: workspace. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1
order by t.label, t.directory_id
