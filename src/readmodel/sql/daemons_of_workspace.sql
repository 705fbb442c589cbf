-- A workspace's daemons. {table}: runtime_presence. $1: workspace. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and t.kind = 'daemon'
order by t.daemon
