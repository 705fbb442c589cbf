-- Read model audit_trail: who did what, by which way, as part of which intent.
-- {table} is rm.audit_trail__v<version>. Everything but the first five columns is generated from `row`.
-- A subject's row has none of them.
create table {table} (
    key text primary key,
    workspace_id uuid not null,
    -- The position of the last event that changed the row, and when the database recorded it.
    position bigint not null,
    recorded_at timestamptz not null,
    row jsonb not null check (jsonb_typeof(row) = 'object'),
    event_position bigint generated always as ((row->>'event_position')::bigint) stored,
    event_type text generated always as (row->>'event_type') stored,
    family text generated always as (row->>'family') stored,
    stream uuid generated always as ((row->>'stream')::uuid) stored,
    actor_type text generated always as (row->'actor'->>'type') stored,
    actor_id text generated always as (row->'actor'->>'id') stored,
    correlation uuid generated always as ((row->>'correlation')::uuid) stored,
    task uuid generated always as ((row->'subject'->>'task')::uuid) stored,
    issue uuid generated always as ((row->'subject'->>'issue')::uuid) stored,
    project uuid generated always as ((row->'subject'->>'project')::uuid) stored,
    agent uuid generated always as ((row->'subject'->>'agent')::uuid) stored,
    directory uuid generated always as ((row->'subject'->>'directory')::uuid) stored,
    daemon text generated always as (row->'subject'->>'daemon') stored,
    check (key like 'event/%' or key like 'subject/%')
);
create unique index on {table} (event_position);
create index on {table} (workspace_id, event_position) where event_position is not null;
create index on {table} (workspace_id, event_type, event_position) where event_position is not null;
create index on {table} (workspace_id, family, event_position) where event_position is not null;
create index on {table} (workspace_id, actor_id, event_position) where event_position is not null;
create index on {table} (correlation, event_position) where event_position is not null;
create index on {table} (stream, event_position) where event_position is not null;
create index on {table} (task, event_position) where task is not null;
create index on {table} (issue, event_position) where issue is not null;
create index on {table} (project, event_position) where project is not null;
create index on {table} (agent, event_position) where agent is not null;
create index on {table} (directory, event_position) where directory is not null;
create index on {table} (workspace_id, daemon, event_position) where daemon is not null;
