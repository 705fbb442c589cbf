-- Reservations by the beginning of their key. $1: log, $2: beginning. Locks: none.
select key, class, holder from es.reservations where log_id = $1 and key ^@ $2
