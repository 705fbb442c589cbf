-- Texts. $1: log, $2: ids. Locks: none.
select id, salt, bytes from es.contents where log_id = $1 and id = any($2)
