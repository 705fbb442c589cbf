-- $1: log, $2: webhook. Locks: none.
select count(*) from es.webhook_deliveries where log_id = $1 and webhook_id = $2 and state = 'waiting'
