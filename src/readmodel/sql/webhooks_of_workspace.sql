-- A workspace's webhooks, oldest first. {table}: webhooks. $1: workspace. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and not t.removed
order by t.began
