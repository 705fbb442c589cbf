-- $1: log, $2: webhook, $3: positions, $4: streams, $5: types. Locks: the rows.
insert into es.webhook_deliveries (log_id, webhook_id, position, stream_id, event_type, state, due_at)
select $1, $2, n.position, n.stream_id, n.event_type, 'waiting', es.now()
from unnest($3::bigint[], $4::uuid[], $5::text[]) as n(position, stream_id, event_type)
on conflict (log_id, webhook_id, position) do nothing
