-- Read model activity_feed: one row for each event, with what the feed filters by.
-- {table} is rm.activity_feed__v<version>. Everything but the first five columns is generated from `row`.
create table {table} (
    key text primary key,
    workspace_id uuid not null,
    -- The position of the last event that changed the row, and when the database recorded it.
    position bigint not null,
    recorded_at timestamptz not null,
    row jsonb not null check (jsonb_typeof(row) = 'object'),
    kind text generated always as (split_part(key, '/', 1)) stored not null,
    event_position bigint generated always as ((row->>'event_position')::bigint) stored,
    event_type text generated always as (row->>'event_type') stored,
    stream uuid generated always as ((row->>'stream')::uuid) stored,
    actor_type text generated always as (row->'actor'->>'type') stored,
    actor_id text generated always as (row->'actor'->>'id') stored,
    task uuid generated always as ((row->'subject'->>'task')::uuid) stored,
    issue uuid generated always as ((row->'subject'->>'issue')::uuid) stored,
    agent uuid generated always as ((row->'subject'->>'agent')::uuid) stored,
    project uuid generated always as ((row->'subject'->>'project')::uuid) stored,
    directory uuid generated always as ((row->'subject'->>'directory')::uuid) stored,
    daemon text generated always as (row->'subject'->>'daemon') stored,
    check (kind in ('event', 'subject')),
    check ((kind = 'event') = (event_position is not null))
);
create unique index on {table} (event_position) where event_position is not null;
create index on {table} (workspace_id, event_position) where event_position is not null;
create index on {table} (task, event_position) where event_position is not null and task is not null;
create index on {table} (issue, event_position) where event_position is not null and issue is not null;
create index on {table} (agent, event_position) where event_position is not null and agent is not null;
create index on {table} (project, event_position) where event_position is not null and project is not null;
create index on {table} (directory, event_position) where event_position is not null and directory is not null;
