-- Forgets what was delivered long ago. $1: log, $2: webhook, $3: milliseconds. Locks: the rows.
with gone as (
    delete from es.webhook_deliveries
    where log_id = $1 and webhook_id = $2 and state = 'delivered'
        and tried_at < es.now() - $3::bigint * interval '1 millisecond'
    returning position
)
update es.webhook_cursors set forgotten = greatest(forgotten, (select max(position) from gone))
where log_id = $1 and webhook_id = $2 and replay = 0 and exists (select from gone)
