-- Rows of an inline read model, from the table that answers. {key}: its name and version. $1: keys. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t.object from rm.{key}__rows($1) t
