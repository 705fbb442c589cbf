-- Read model runtime_presence: every daemon with its runtimes.
-- {table} is rm.runtime_presence__v<version>. Everything but the first five columns is generated from `row`.
create table {table} (
    key text primary key,
    workspace_id uuid not null,
    -- The position of the last event that changed the row, and when the database recorded it.
    position bigint not null,
    recorded_at timestamptz not null,
    row jsonb not null check (jsonb_typeof(row) = 'object'),
    kind text generated always as (split_part(key, '/', 1)) stored not null,
    daemon_stream uuid generated always as ((coalesce(row->>'daemon_stream', row->>'id'))::uuid) stored not null,
    daemon text generated always as (row->>'daemon') stored not null,
    owner uuid generated always as ((row->>'owner')::uuid) stored not null,
    machine uuid generated always as ((row->>'machine')::uuid) stored,
    online boolean generated always as ((row->>'online')::boolean) stored,
    runtime uuid generated always as ((case when row ? 'daemon_stream' then row->>'id' end)::uuid) stored,
    check (kind in ('daemon', 'runtime')),
    check ((kind = 'daemon') = (machine is not null)),
    check ((kind = 'runtime') = (runtime is not null))
);
create unique index on {table} (daemon_stream) where kind = 'daemon';
create unique index on {table} (workspace_id, daemon) where kind = 'daemon';
create unique index on {table} (runtime) where kind = 'runtime';
create index on {table} (daemon_stream) where kind = 'runtime';
