-- $1: workspace, $2: name. Locks: none.
select key_id, sealed from es.secrets where workspace_id = $1 and name = $2
