-- Who a session is for. $1: SHA-256 of the cookie's token. Locks: none.
select user_id, workspace_id from es.sessions where hash = $1 and expires_at > es.now()
