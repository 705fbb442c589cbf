-- $1: workspace, $2: name. Locks: the row.
delete from es.secrets where workspace_id = $1 and name = $2
