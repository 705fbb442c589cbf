-- Read model directory_queue: every directory with its holder and its queue.
-- {table} is rm.directory_queue__v<version>. Everything but the first five columns is generated from `row`.
create table {table} (
    key text primary key,
    workspace_id uuid not null,
    -- The position of the last event that changed the row, and when the database recorded it.
    position bigint not null,
    recorded_at timestamptz not null,
    row jsonb not null check (jsonb_typeof(row) = 'object'),
    directory_id uuid generated always as ((row->>'id')::uuid) stored not null,
    machine uuid generated always as ((row->>'machine')::uuid) stored not null,
    label text generated always as (row->>'label') stored not null,
    holder uuid generated always as ((row->'holder'->>'task')::uuid) stored,
    waiting integer generated always as ((jsonb_array_length(row->'queue'))::integer) stored not null,
    check (key like 'directory/%')
);
create unique index on {table} (directory_id);
create index on {table} (workspace_id, label);
create index on {table} (holder) where holder is not null;
-- Free directories with a queue: what promotion has to look at.
create index on {table} (directory_id) where holder is null and waiting > 0;
