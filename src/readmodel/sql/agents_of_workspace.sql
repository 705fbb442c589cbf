-- A workspace's agents, oldest first. {table}: agent_roster. $1: workspace, $2: archived ones too. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and ($2 or not t.archived)
order by t.created_at, t.agent_id
