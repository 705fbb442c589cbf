-- Read model counters: the last number given, for issues of a workspace and runs of an issue.
-- {table} is rm.counters__v<version>. Everything but the first five columns is generated from `row`.
create table {table} (
    key text primary key,
    workspace_id uuid not null,
    -- The position of the last event that changed the row, and when the database recorded it.
    position bigint not null,
    recorded_at timestamptz not null,
    row jsonb not null check (jsonb_typeof(row) = 'object'),
    value integer generated always as ((row->>'value')::integer) stored not null,
    check (value > 0)
);
