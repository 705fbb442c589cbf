-- Read model access: who may come in, and what a workspace is.
-- {table} is rm.access__v<version>. Everything but the first five columns is generated from `row`.
create table {table} (
    key text primary key,
    workspace_id uuid not null,
    -- The position of the last event that changed the row, and when the database recorded it.
    position bigint not null,
    recorded_at timestamptz not null,
    row jsonb not null check (jsonb_typeof(row) = 'object'),
    kind text generated always as (split_part(key, '/', 1)) stored not null,
    token_id uuid generated always as ((case when row ? 'sha256' then row->>'id' end)::uuid) stored,
    user_id uuid generated always as ((row->>'user')::uuid) stored,
    role text generated always as (row->>'role') stored,
    slug text generated always as (row->>'slug') stored,
    check (kind in ('token', 'member', 'workspace')),
    check ((kind = 'token') = (token_id is not null)),
    check ((kind = 'member') = (role is not null)),
    check ((kind = 'workspace') = (slug is not null))
);
create unique index on {table} (token_id) where token_id is not null;
create unique index on {table} (slug) where slug is not null;
create index on {table} (user_id, kind) where user_id is not null;
