-- Writes rows of a read model; a row of null deletes. Locks: the rows.
-- {table}: its table. {changes}: what yields key, workspace_id, position, recorded_at in µs, row.
-- {base}: added to each position (inline: the head before the batch, positions are ordinals).
with change as materialized (
    select c.key, c.workspace_id, {base} + c.position as position,
        timestamptz '1970-01-01T00:00:00Z' + c.recorded_at * interval '1 microsecond' as recorded_at, c."row"
    from {changes} as c
),
gone as (
    delete from {table} t using change c where t.key = c.key and c."row" is null
)
insert into {table} as t (key, workspace_id, position, recorded_at, "row")
select c.key, c.workspace_id, c.position, c.recorded_at, c."row"
from change c
where c."row" is not null
on conflict (key) do update
set workspace_id = excluded.workspace_id, position = excluded.position,
    recorded_at = excluded.recorded_at, "row" = excluded."row"
