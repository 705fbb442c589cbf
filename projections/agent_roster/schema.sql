-- Read model agent_roster: every agent.
-- {table} is rm.agent_roster__v<version>. Everything but the first five columns is generated from `row`.
create table {table} (
    key text primary key,
    workspace_id uuid not null,
    -- The position of the last event that changed the row, and when the database recorded it.
    position bigint not null,
    recorded_at timestamptz not null,
    row jsonb not null check (jsonb_typeof(row) = 'object'),
    agent_id uuid generated always as ((row->>'id')::uuid) stored not null,
    name text generated always as (row->>'name') stored not null,
    runtime uuid generated always as ((row->>'runtime')::uuid) stored not null,
    owner uuid generated always as ((row->>'owner')::uuid) stored not null,
    archived boolean generated always as ((row->>'archived')::boolean) stored not null,
    max_concurrent_tasks integer generated always as ((row->>'max_concurrent_tasks')::integer) stored not null,
    created_at bigint generated always as ((row->>'created_at')::bigint) stored not null,
    check (key like 'agent/%'),
    check (max_concurrent_tasks between 1 and 50)
);
create unique index on {table} (agent_id);
create unique index on {table} (workspace_id, lower(name)) where not archived;
create index on {table} (runtime) where not archived;
