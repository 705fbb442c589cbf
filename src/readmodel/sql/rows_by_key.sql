-- Rows of a read model. {table}: its table. $1: keys. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t where t.key = any($1)
