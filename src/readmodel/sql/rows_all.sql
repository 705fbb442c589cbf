-- Every row of a read model. {table}: its table. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t order by t.key
