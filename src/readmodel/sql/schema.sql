-- A read model's table with the contract's columns only. {table}: its name. Locks: none, it is new.
create table {table} (
    key text collate "C" primary key,
    workspace_id uuid not null,
    position bigint not null,
    recorded_at timestamptz not null,
    "row" jsonb not null
);
create index on {table} (workspace_id);
