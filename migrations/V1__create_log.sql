-- The log and what its append needs, in schema es, owned by the role that migrates.
-- Locks: none that matter, the schema is new. Every key leads with log_id; today there is one log, 1.

do $$
begin
    if not exists (select from pg_catalog.pg_roles where rolname = 'multica_app') then
        create role multica_app login;
    end if;
    execute format('grant multica_app to %I', current_user);
end
$$;

create schema es;
create schema rm authorization multica_app;
grant usage on schema es to multica_app;

-- The database clock. The offset row exists only in test databases.
create table es.clock_offset (
    single boolean primary key default true check (single),
    by_interval interval not null
);

create function es.now() returns timestamptz
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select clock_timestamp() + coalesce((select by_interval from es.clock_offset where single), interval '0')
$$;

-- One row per log; locked first by every append, and by nothing else but a swap.
create table es.log_head (
    log_id integer primary key,
    last_seq bigint not null,
    last_block_hash bytea not null check (length(last_block_hash) = 32),
    last_recorded_at timestamptz not null
) with (fillfactor = 10);

insert into es.log_head (log_id, last_seq, last_block_hash, last_recorded_at)
values (1, 0, decode(repeat('00', 32), 'hex'), '1970-01-01T00:00:00Z');

-- data and meta are json, not jsonb: their exact text is what is hashed.
create table es.events (
    log_id integer not null,
    seq bigint not null,
    workspace_id uuid not null,
    family text not null,
    stream_id uuid not null,
    version integer not null,
    event_id uuid not null,
    command_id uuid not null,
    correlation_id uuid not null,
    causation bigint,
    event_type text not null,
    schema_version smallint not null,
    actor_type text not null,
    actor_id text not null,
    actor_via text not null,
    occurred_at timestamptz not null,
    recorded_at timestamptz not null,
    data json not null,
    meta json not null,
    primary key (log_id, seq)
) partition by range (seq);

-- Plain: es.streams guards versions.
create index events_by_stream on es.events (log_id, stream_id, version);
create index events_by_correlation on es.events (log_id, correlation_id, seq);
create index events_by_time on es.events using brin (recorded_at);

create table es.log_blocks (
    log_id integer not null,
    first_seq bigint not null,
    last_seq bigint not null,
    format smallint not null,
    prev_hash bytea not null,
    hash bytea not null,
    recorded_at timestamptz not null,
    primary key (log_id, last_seq)
);

create table es.streams (
    log_id integer not null,
    stream_id uuid not null,
    family text not null,
    workspace_id uuid not null,
    version integer not null,
    last_seq bigint not null,
    primary key (log_id, stream_id)
) with (fillfactor = 80);

-- outcome: 0 accepted, 1 refused by a rule. position: the command's last event, else the head then.
create table es.commands (
    log_id integer not null,
    command_id uuid not null,
    workspace_id uuid not null,
    kind text not null,
    fingerprint bytea not null check (length(fingerprint) = 16),
    outcome smallint not null check (outcome in (0, 1)),
    position bigint not null,
    event_count integer not null,
    result json not null,
    actor_type text not null,
    actor_id text not null,
    actor_via text not null,
    recorded_at timestamptz not null,
    primary key (log_id, command_id)
);
create index commands_by_time on es.commands (recorded_at);

-- Free text and personal data. Never updated; erasing deletes a row and leaves the event's digest.
create table es.contents (
    log_id integer not null,
    id uuid not null,
    workspace_id uuid not null,
    salt bytea not null,
    bytes bytea not null,
    primary key (log_id, id)
);

create table es.reservations (
    log_id integer not null,
    key text collate "C" not null,
    class text not null,
    holder uuid not null,
    primary key (log_id, key)
);
create index reservations_by_holder on es.reservations (log_id, holder, class);

create table es.event_types (
    event_type text not null,
    schema_version smallint not null,
    sha256 bytea not null check (length(sha256) = 32),
    primary key (event_type, schema_version)
);

-- Which table answers for a read model, and how far a follower has come.
-- state: building, active, stopped (poison: stopped_at, stop_reason), retired.
create table es.projections (
    log_id integer not null,
    name text not null,
    version integer not null,
    mode text not null check (mode in ('inline', 'follower')),
    state text not null check (state in ('building', 'active', 'stopped', 'retired')),
    table_name text not null,
    checkpoint bigint not null default 0,
    stopped_at bigint,
    stop_reason text,
    degraded boolean not null default false,
    primary key (log_id, name, version)
);
create unique index projections_answering on es.projections (log_id, name)
where state in ('active', 'stopped');

-- A changed or deleted row of the log is refused for everybody but the owner, whatever was granted.
create function es.refuse_change() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_catalog.pg_get_userbyid((select relowner from pg_catalog.pg_class where oid = tg_relid)) <> current_user then
        raise exception 'the log is append-only' using errcode = 'insufficient_privilege';
    end if;
    if tg_op = 'DELETE' then
        return old;
    end if;
    return new;
end
$$;

-- Row triggers: a partitioned table hands them on to each partition.
create trigger refuse_change before update or delete on es.events
for each row execute function es.refuse_change();
create trigger refuse_change before update or delete on es.log_blocks
for each row execute function es.refuse_change();
create trigger refuse_change before update on es.contents
for each row execute function es.refuse_change();

grant select on es.log_head, es.events, es.log_blocks, es.streams, es.commands, es.contents, es.reservations
to multica_app;
grant select, insert, update, delete on es.projections to multica_app;
grant select, insert on es.event_types to multica_app;
