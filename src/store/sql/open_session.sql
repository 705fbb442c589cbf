-- Opens a session; old ones go with it. $1: SHA-256 of the cookie's token, $2: user, $3: workspace,
-- $4: milliseconds that it lasts. Locks: the rows it writes.
with old as (delete from es.sessions where expires_at <= es.now())
insert into es.sessions (hash, user_id, workspace_id, expires_at)
values ($1, $2, $3, es.now() + $4::bigint * interval '1 millisecond')
