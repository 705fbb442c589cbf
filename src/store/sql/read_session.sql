-- $1: hash. Locks: none.
select user_id, workspace_id from es.sessions where hash = $1 and expires_at > es.now()
