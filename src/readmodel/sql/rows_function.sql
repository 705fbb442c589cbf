-- Reads an inline read model's rows by key, for the append: replaced by a swap. {key}, {table}: put in by install.
-- Without settings of its own, so that the planner puts it into the statement that calls it. Locks: none.
create or replace function rm.{key}__rows(p_keys text[])
returns table ("key" text, workspace_id uuid, "position" bigint, recorded_at timestamptz, "object" jsonb)
language sql stable
as $rows$
    select t.key, t.workspace_id, t.position, t.recorded_at, t."row" from {table} t where t.key = any(p_keys)
$rows$;
