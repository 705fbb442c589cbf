-- Changes out of arrays that run in parallel: each row is read once, not three times. Locks: none.
-- $1: keys, $2: workspaces, $3: positions, $4: recorded_at in µs, $5: rows, null where one goes.
(
    select * from unnest($1::text[], $2::uuid[], $3::bigint[], $4::bigint[], $5::jsonb[])
        as c(key, workspace_id, position, recorded_at, "row")
)
