-- What came of an attempt; nothing where somebody else has settled it meanwhile. $1: log, $2: webhook, $3: position,
-- $4: round, $5: attempts before, $6: state, $7: due in milliseconds, $8: problem, $9: status, $10: how long it took.
-- Locks: the row.
update es.webhook_deliveries
set state = $6, attempts = attempts + 1, due_at = es.now() + $7::bigint * interval '1 millisecond',
    tried_at = es.now(), problem = $8, status = $9, millis = $10
where log_id = $1 and webhook_id = $2 and position = $3 and round = $4 and attempts = $5 and state = 'waiting'
