-- Read model project_resources: every project with its resources.
-- {table} is rm.project_resources__v<version>. Everything but the first five columns is generated from `row`.
create table {table} (
    key text primary key,
    workspace_id uuid not null,
    -- The position of the last event that changed the row, and when the database recorded it.
    position bigint not null,
    recorded_at timestamptz not null,
    row jsonb not null check (jsonb_typeof(row) = 'object'),
    project_id uuid generated always as ((row->>'id')::uuid) stored not null,
    status text generated always as (row->>'status') stored not null,
    priority text generated always as (row->>'priority') stored not null,
    deleted boolean generated always as ((row->>'deleted')::boolean) stored not null,
    created_at bigint generated always as ((row->>'created_at')::bigint) stored not null,
    check (key like 'project/%')
);
create unique index on {table} (project_id);
create index on {table} (workspace_id, created_at desc) where not deleted;
