-- A webhook's deliveries, newest events first. $1: log, $2: webhook, $3: state, or null for all, $4: before this
-- position, $5: at most so many. Locks: none.
select position, stream_id, event_type, state, round, attempts, due_at, tried_at, problem, status, millis
from es.webhook_deliveries
where log_id = $1 and webhook_id = $2 and ($3::text is null or state = $3) and position < $4
order by position desc
limit $5
