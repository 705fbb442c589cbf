-- Ends a session. $1: SHA-256 of the cookie's token. Locks: its row.
delete from es.sessions where hash = $1
