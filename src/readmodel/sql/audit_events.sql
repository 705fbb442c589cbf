-- A workspace's events between two positions. {table}: audit_trail, {order}: asc or desc. Locks: none.
-- $1: workspace, $2: after, $3: before, $4: at most; null (or empty) for any: $5: actor's kind, $6: actor's id,
-- $7: types, $8: not of that type, $9: correlation, $10: stream, $11: task, $12: issue, $13: project, $14: agent,
-- $15: directory, $16: daemon.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and t.event_position > $2 and t.event_position < $3
    and ($5::text is null or t.actor_type = $5) and ($6::text is null or t.actor_id = $6)
    and (cardinality($7::text[]) = 0 or t.event_type = any($7)) and ($8::text is null or t.event_type <> $8)
    and ($9::uuid is null or t.correlation = $9) and ($10::uuid is null or t.stream = $10)
    and ($11::uuid is null or t.task = $11) and ($12::uuid is null or t.issue = $12)
    and ($13::uuid is null or t.project = $13) and ($14::uuid is null or t.agent = $14)
    and ($15::uuid is null or t.directory = $15) and ($16::text is null or t.daemon = $16)
order by t.event_position {order} limit $4
