-- What is to be sent: of each stream the first that waits, if it is due. $1: log, $2: webhook, $3: streams that are
-- being sent, $4: at most so many, $5: up to this position. Locks: none.
with first as (
    select distinct on (stream_id) position, stream_id, event_type, round, attempts, due_at
    from es.webhook_deliveries
    where log_id = $1 and webhook_id = $2 and state = 'waiting'
    order by stream_id, position
)
select position, stream_id, event_type, round, attempts from first
where due_at <= es.now() and position <= $5 and not stream_id = any($3::uuid[])
order by due_at, position
limit $4
