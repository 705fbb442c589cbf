-- Hears of new heads. Locks: none.
listen es_log
