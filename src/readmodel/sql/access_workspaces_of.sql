-- The workspaces of a person, oldest first. {table}: access. $1: user. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} m
join {table} t on t.key = 'workspace/' || m.workspace_id
where m.user_id = $1 and m.kind = 'member'
order by (t."row"->>'created_at')::bigint, t.key
