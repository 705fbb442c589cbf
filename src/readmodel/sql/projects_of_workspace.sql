-- A workspace's projects, newest first. {table}: project_resources. $1: workspace, $2: status, $3: priority. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and not t.deleted and ($2::text is null or t.status = $2) and ($3::text is null or t.priority = $3)
order by t.created_at desc, t.project_id desc
