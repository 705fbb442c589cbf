-- A workspace's tasks, newest first. {table}: task_status. Locks: none.
-- $1: workspace, $2: statuses (any when empty), $3: project, $4: agent, $5: issue (null for any), $6: at most.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and (cardinality($2::text[]) = 0 or t.status = any($2))
    and ($3::uuid is null or t.project = $3) and ($4::uuid is null or t.agent = $4)
    and ($5::uuid is null or t.issue = $5)
order by t.queued_at desc, t.task_id desc limit $6
