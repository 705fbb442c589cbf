-- $1: log, $2: webhook, $3: replay, $4: where it was, $5: where it is now. Locks: the row.
update es.webhook_cursors set position = $5
where log_id = $1 and webhook_id = $2 and replay = $3 and position = $4
