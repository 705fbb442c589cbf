-- Changes out of one JSON array, as an append brings them. {rows}: the array. Locks: none.
(
    select * from jsonb_to_recordset({rows})
        as c(key text, workspace_id uuid, position bigint, recorded_at bigint, "row" jsonb)
)
