-- What became of the deliveries between two positions. $1: log, $2: webhook, $3: after, $4: up to. Locks: none.
select position, state from es.webhook_deliveries
where log_id = $1 and webhook_id = $2 and position > $3 and position <= $4
