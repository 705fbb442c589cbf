-- Uses a code up. $1: hash. Locks: the row.
delete from es.sign_in_codes where hash = $1 and expires_at > es.now() returning user_id, workspace_id
