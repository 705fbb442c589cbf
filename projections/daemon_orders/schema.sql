-- Read model daemon_orders: what daemons have been told to do and have not answered.
-- {table} is rm.daemon_orders__v<version>. Everything but the first five columns is generated from `row`.
create table {table} (
    key text primary key,
    workspace_id uuid not null,
    -- The position of the last event that changed the row, and when the database recorded it.
    position bigint not null,
    recorded_at timestamptz not null,
    row jsonb not null check (jsonb_typeof(row) = 'object'),
    kind text generated always as (split_part(key, '/', 1)) stored not null,
    order_id uuid generated always as ((row->>'id')::uuid) stored,
    daemon_stream uuid generated always as ((row->>'daemon_stream')::uuid) stored,
    task uuid generated always as ((row->>'task')::uuid) stored,
    check (kind in ('cancel', 'promoted', 'probe', 'claim')),
    check ((kind = 'claim') = (order_id is null)),
    check ((order_id is null) = (daemon_stream is null))
);
create unique index on {table} (order_id) where order_id is not null;
create index on {table} (daemon_stream, position) where daemon_stream is not null;
