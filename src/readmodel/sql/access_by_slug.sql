-- The workspace of a slug. {table}: access. $1: slug. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.slug = $1
