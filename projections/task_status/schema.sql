-- Read model task_status: every task with all that its events say of it.
-- {table} is rm.task_status__v<version>. Everything but the first five columns is generated from `row`.
create table {table} (
    key text primary key,
    workspace_id uuid not null,
    -- The position of the last event that changed the row, and when the database recorded it.
    position bigint not null,
    recorded_at timestamptz not null,
    row jsonb not null check (jsonb_typeof(row) = 'object'),
    task_id uuid generated always as ((row->>'id')::uuid) stored not null,
    name text generated always as (row->>'name') stored not null,
    status text generated always as (row->>'status') stored not null,
    issue uuid generated always as ((row->>'issue')::uuid) stored not null,
    agent uuid generated always as ((row->>'agent')::uuid) stored not null,
    project uuid generated always as ((row->>'project')::uuid) stored,
    daemon text generated always as (row->>'daemon') stored not null,
    runtime uuid generated always as ((row->>'runtime')::uuid) stored not null,
    directory uuid generated always as ((row->>'directory')::uuid) stored,
    priority smallint generated always as ((row->>'priority')::smallint) stored not null,
    run integer generated always as ((row->>'run')::integer) stored not null,
    queued_at bigint generated always as ((row->>'queued_at')::bigint) stored not null,
    completed_at bigint generated always as ((row->>'completed_at')::bigint) stored,
    check (key like 'task/%'),
    check (status in ('deferred', 'queued', 'dispatched', 'waiting_local_directory', 'running', 'completed', 'failed', 'cancelled')),
    check ((status in ('completed', 'failed', 'cancelled')) = (completed_at is not null))
);
create unique index on {table} (task_id);
create index on {table} (workspace_id, name);
create index on {table} (workspace_id, queued_at desc);
create index on {table} (issue, run desc);
create index on {table} (workspace_id, agent, queued_at desc);
create index on {table} (workspace_id, project, queued_at desc);
-- Candidates of a claim: most urgent first, then oldest.
create index on {table} (runtime, priority desc, queued_at, task_id) where status = 'queued';
create index on {table} (workspace_id, daemon) where status in ('dispatched', 'waiting_local_directory', 'running');
create index on {table} (directory) where directory is not null;
