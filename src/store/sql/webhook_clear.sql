-- Forgets a webhook that is gone. $1: log, $2: webhook. Locks: the rows.
with deliveries as (delete from es.webhook_deliveries where log_id = $1 and webhook_id = $2)
delete from es.webhook_cursors where log_id = $1 and webhook_id = $2
