-- Read model issue_board: every issue and every comment.
-- {table} is rm.issue_board__v<version>. Everything but the first five columns is generated from `row`.
create table {table} (
    key text primary key,
    workspace_id uuid not null,
    -- The position of the last event that changed the row, and when the database recorded it.
    position bigint not null,
    recorded_at timestamptz not null,
    row jsonb not null check (jsonb_typeof(row) = 'object'),
    kind text generated always as (split_part(key, '/', 1)) stored not null,
    issue_id uuid generated always as ((coalesce(row->>'issue', row->>'id'))::uuid) stored not null,
    issue_key text generated always as (row->>'key') stored,
    number integer generated always as ((row->>'number')::integer) stored,
    project uuid generated always as ((row->>'project')::uuid) stored,
    status text generated always as (row->>'status') stored,
    assignee_type text generated always as (row->'assignee'->>'type') stored,
    assignee_id uuid generated always as ((row->'assignee'->>'id')::uuid) stored,
    n integer generated always as ((row->>'n')::integer) stored,
    created_at bigint generated always as ((row->>'created_at')::bigint) stored not null,
    check (kind in ('issue', 'comment')),
    check ((kind = 'issue') = (issue_key is not null)),
    check ((kind = 'comment') = (n is not null))
);
create unique index on {table} (workspace_id, number) where kind = 'issue';
create unique index on {table} (workspace_id, issue_key) where kind = 'issue';
create unique index on {table} (issue_id) where kind = 'issue';
create unique index on {table} (issue_id, n) where kind = 'comment';
create index on {table} (workspace_id, status, number desc) where kind = 'issue';
create index on {table} (workspace_id, project, number desc) where kind = 'issue';
