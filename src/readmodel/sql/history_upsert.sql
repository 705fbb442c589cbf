-- Writes versions of rows; a change ends the version before it, a row of null only ends it. Locks: the rows.
-- {table}: its table. {changes}: what yields key, workspace_id, position, recorded_at in µs, row, in order.
-- {base}: added to each position.
with change as materialized (
    select c.key, c.workspace_id, {base} + c.position as position,
        timestamptz '1970-01-01T00:00:00Z' + c.recorded_at * interval '1 microsecond' as recorded_at, c."row",
        {base} + lead(c.position) over one_key as to_position, row_number() over one_key as nth
    from {changes} as c
    window one_key as (partition by c.key order by c.position)
),
ended as (
    update {table} t set to_position = c.position
    from change c
    where c.nth = 1 and t.key = c.key and t.to_position is null
    returning 1
)
insert into {table} (key, workspace_id, position, recorded_at, "row", to_position)
select c.key, c.workspace_id, c.position, c.recorded_at, c."row", c.to_position
from change c
-- Asked for, so that old versions have ended before new ones begin: one of a key counts at a time.
where c."row" is not null and (select count(*) from ended) >= 0
