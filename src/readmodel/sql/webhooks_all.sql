-- Every webhook, those that are gone too. {table}: webhooks. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
order by t.began
