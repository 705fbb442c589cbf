-- Read model timers: what has to happen by itself when too much time has gone by.
-- {table} is rm.timers__v<version>. Everything but the first five columns is generated from `row`.
create table {table} (
    key text primary key,
    workspace_id uuid not null,
    -- The position of the last event that changed the row, and when the database recorded it.
    position bigint not null,
    recorded_at timestamptz not null,
    row jsonb not null check (jsonb_typeof(row) = 'object'),
    timer_kind text generated always as (row->>'timer_kind') stored not null,
    task uuid generated always as ((row->>'task')::uuid) stored not null,
    since bigint generated always as ((row->>'since')::bigint) stored not null,
    check (timer_kind in ('receipt', 'promotion', 'queued'))
);
create index on {table} (timer_kind, since);
