-- Facts that are no events: transcripts, heartbeats, leases, secrets, sign-in.
-- Locks: none that matter, the tables are new.

-- body is the message's exact JSON text: the terminal event holds a digest over it.
-- Ranges of task_id, which is a version 7 UUID, so of time.
create table es.transcripts (
    log_id integer not null,
    task_id uuid not null,
    generation integer not null,
    seq integer not null,
    workspace_id uuid not null,
    body json not null,
    recorded_at timestamptz not null,
    primary key (log_id, task_id, generation, seq)
) partition by range (task_id);

create table es.heartbeats (
    stream_id uuid primary key,
    workspace_id uuid not null,
    daemon text not null,
    incarnation uuid not null,
    last_seen timestamptz not null
) with (fillfactor = 70);

create table es.leases (
    name text primary key,
    holder uuid not null,
    until timestamptz not null
) with (fillfactor = 70);

-- sealed: encrypted with a key that is not in the database; key_id says which.
create table es.secrets (
    workspace_id uuid not null,
    name text not null,
    key_id text not null,
    sealed bytea not null,
    changed_at timestamptz not null,
    primary key (workspace_id, name)
);

-- hash: SHA-256 of the code or of the cookie's token.
create table es.sign_in_codes (
    hash bytea primary key,
    user_id uuid not null,
    workspace_id uuid not null,
    expires_at timestamptz not null
);

create table es.sessions (
    hash bytea primary key,
    user_id uuid not null,
    workspace_id uuid not null,
    expires_at timestamptz not null
);

grant select, insert on es.transcripts to multica_app;
grant select, insert, update, delete on es.heartbeats, es.leases, es.secrets, es.sign_in_codes, es.sessions
to multica_app;
