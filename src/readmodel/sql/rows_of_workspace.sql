-- Rows of a workspace. {table}: the table. $1: workspace. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object
from {table} t
where t.workspace_id = $1
order by t.key
