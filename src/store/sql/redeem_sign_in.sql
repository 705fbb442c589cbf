-- Uses a sign-in code up; old ones go with it. $1: SHA-256 of the code. Locks: the rows it deletes.
with old as (delete from es.sign_in_codes where expires_at <= es.now() and hash <> $1),
used as (delete from es.sign_in_codes where hash = $1 returning user_id, workspace_id, expires_at)
select user_id, workspace_id from used where expires_at > es.now()
