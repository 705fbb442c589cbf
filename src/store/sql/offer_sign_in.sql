-- Stores a sign-in code. $1: SHA-256 of the code, $2: user, $3: workspace, $4: milliseconds that it works.
-- Locks: the new row.
insert into es.sign_in_codes (hash, user_id, workspace_id, expires_at)
values ($1, $2, $3, es.now() + $4::bigint * interval '1 millisecond')
returning expires_at
