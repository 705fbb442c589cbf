-- An issue by its key. {table}: issue_board. $1: workspace, $2: key. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and t.kind = 'issue' and t.issue_key = $2
