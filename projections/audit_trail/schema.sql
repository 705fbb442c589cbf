-- Read model audit_trail: who did what, by which way, as part of which intent.
-- {table} is rm.audit_trail__v<version>. Everything but the first five columns is generated from `row`.
create table {table} (
    key text primary key,
    workspace_id uuid not null,
    -- The position of the last event that changed the row, and when the database recorded it.
    position bigint not null,
    recorded_at timestamptz not null,
    row jsonb not null check (jsonb_typeof(row) = 'object'),
    event_position bigint generated always as ((row->>'event_position')::bigint) stored not null,
    event_type text generated always as (row->>'event_type') stored not null,
    stream uuid generated always as ((row->>'stream')::uuid) stored not null,
    actor_type text generated always as (row->'actor'->>'type') stored not null,
    actor_id text generated always as (row->'actor'->>'id') stored not null,
    command uuid generated always as ((row->>'command')::uuid) stored not null,
    correlation uuid generated always as ((row->>'correlation')::uuid) stored not null,
    check (key like 'event/%')
);
create unique index on {table} (event_position);
create index on {table} (workspace_id, event_position);
create index on {table} (workspace_id, actor_id, event_position);
create index on {table} (correlation, event_position);
