-- The same for a replay: what is over is made due once more, what waits is left alone.
-- $1: log, $2: webhook, $3: positions, $4: streams, $5: types. Locks: the rows.
insert into es.webhook_deliveries as d (log_id, webhook_id, position, stream_id, event_type, state, due_at)
select $1, $2, n.position, n.stream_id, n.event_type, 'waiting', es.now()
from unnest($3::bigint[], $4::uuid[], $5::text[]) as n(position, stream_id, event_type)
on conflict (log_id, webhook_id, position) do update
set state = 'waiting', round = d.round + 1, attempts = 0, due_at = excluded.due_at
where d.state <> 'waiting'
