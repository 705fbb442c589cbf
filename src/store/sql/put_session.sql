-- $1: hash, $2: user, $3: workspace, $4: milliseconds. Old ones go on the way. Locks: the rows.
with gone as (delete from es.sessions where expires_at <= es.now())
insert into es.sessions (hash, user_id, workspace_id, expires_at)
values ($1, $2, $3, es.now() + $4::bigint * interval '1 millisecond')
