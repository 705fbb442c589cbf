-- $1: workspace, $2: name, $3: key's id, $4: sealed bytes. Locks: the row.
insert into es.secrets (workspace_id, name, key_id, sealed, changed_at)
values ($1, $2, $3, $4, es.now())
on conflict (workspace_id, name) do update
set key_id = excluded.key_id, sealed = excluded.sealed, changed_at = excluded.changed_at
