-- A person's tokens in a workspace, newest first. {table}: access. $1: workspace, $2: user. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and t.user_id = $2 and t.kind = 'token' and not (t."row"->>'revoked')::boolean
order by (t."row"->>'created_at')::bigint desc, t.key
