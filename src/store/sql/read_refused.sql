-- A workspace's refused commands between two places of the trail. {order}: asc or desc. Locks: none.
-- $1: log, $2: workspace, $3 $4 $5: after this place, $6 $7 $8: before that place, $9: at most so many,
-- $10: actor's kind, $11: actor's id, $12: kind, $13: head of the kind, $14: correlation, $15: stream seen,
-- $16: recorded at or after, $17: recorded before; each null for any.
select c.command_id, c.kind, c.position, c.result::text as result, c.actor_type, c.actor_id, c.actor_via, c.recorded_at
from es.commands c
where c.log_id = $1 and c.workspace_id = $2 and c.outcome = 1
    and (c.position, c.recorded_at, c.command_id) > ($3, $4, $5)
    and (c.position, c.recorded_at, c.command_id) < ($6, $7, $8)
    and ($10::text is null or c.actor_type = $10) and ($11::text is null or c.actor_id = $11)
    and ($12::text is null or c.kind = $12) and ($13::text is null or starts_with(c.kind, $13))
    and ($14::text is null or c.result->>'correlation' = $14)
    and ($15::text is null or (c.result->'about')::jsonb ? $15)
    and ($16::timestamptz is null or c.recorded_at >= $16) and ($17::timestamptz is null or c.recorded_at < $17)
order by c.position {order}, c.recorded_at {order}, c.command_id {order} limit $9
