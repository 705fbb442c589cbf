-- Makes deliveries due again that were given up. $1: log, $2: webhook, $3: positions, $4, $5: besides all between
-- these, the first not included. Locks: the rows.
update es.webhook_deliveries
set state = 'waiting', round = round + 1, attempts = 0, due_at = es.now()
where log_id = $1 and webhook_id = $2 and state = 'dead'
    and (position = any($3::bigint[]) or (position > $4::bigint and position <= $5::bigint))
