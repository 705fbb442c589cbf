-- Read model webhooks: every webhook.
-- {table} is rm.webhooks__v<version>. Everything but the first five columns is generated from `row`.
create table {table} (
    key text primary key,
    workspace_id uuid not null,
    -- The position of the last event that changed the row, and when the database recorded it.
    position bigint not null,
    recorded_at timestamptz not null,
    row jsonb not null check (jsonb_typeof(row) = 'object'),
    webhook_id uuid generated always as ((row->>'id')::uuid) stored not null,
    removed boolean generated always as ((row->>'removed')::boolean) stored not null,
    began bigint generated always as ((row->>'began')::bigint) stored not null
);
create index on {table} (workspace_id, began);
