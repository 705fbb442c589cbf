-- Reservations of these keys. $1: log, $2: keys. Locks: none.
select key, class, holder from es.reservations where log_id = $1 and key = any($2)
