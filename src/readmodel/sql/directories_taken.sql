-- A workspace's directories that have a holder or a queue. {table}: directory_queue. $1: workspace. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and (t.holder is not null or t.waiting > 0)
order by t.directory_id
