-- The names of a workspace's secrets that begin so. $1: workspace, $2: the beginning, $3: milliseconds that they
-- have been there at least. Locks: none.
select name from es.secrets where workspace_id = $1 and starts_with(name, $2) and changed_at < es.now() - $3::bigint * interval '1 millisecond'
