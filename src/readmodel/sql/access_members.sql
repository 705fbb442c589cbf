-- The members of a workspace, oldest first. {table}: access. $1: workspace. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and t.kind = 'member'
order by (t."row"->>'created_at')::bigint, t.key
