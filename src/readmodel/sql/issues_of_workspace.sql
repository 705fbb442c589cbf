-- A workspace's issues, newest first. {table}: issue_board. Locks: none.
-- $1: workspace, $2: status, $3: project, $4: assignee (each null for any), $5: at most, $6: after so many.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and t.kind = 'issue' and ($2::text is null or t.status = $2)
    and ($3::uuid is null or t.project = $3) and ($4::uuid is null or t.assignee_id = $4)
order by t.number desc limit $5 offset $6
