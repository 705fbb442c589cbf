-- Read model issue_board: writes the rows that a batch of events changed, removes those whose row is null.
-- $1: json array of {key, workspace_id, position, recorded_at_us, row}; a key stands in it once.
-- Locks: the rows named. Inline, the writer alone comes here, under the log's head lock.
with changed as (
    select c.key, c.workspace_id, c.position, c.recorded_at_us, c.row
    from json_to_recordset($1::json)
        as c(key text, workspace_id uuid, position bigint, recorded_at_us bigint, row jsonb)
), removed as (
    delete from {table} as t using changed as c where t.key = c.key and c.row is null
)
insert into {table} as t (key, workspace_id, position, recorded_at, row)
select c.key, c.workspace_id, c.position,
       timestamptz 'epoch' + c.recorded_at_us * interval '1 microsecond', c.row
from changed as c
where c.row is not null
on conflict (key) do update
set workspace_id = excluded.workspace_id,
    position = excluded.position,
    recorded_at = excluded.recorded_at,
    row = excluded.row
