-- Rebuilds of read models beside the tables that answer: how far each is, so that one that was interrupted
-- goes on. A read model is rebuilt once at a time.

-- state: building → catching_up → swapped (the new table answers; the rebuild isn't recorded yet) → retiring (the
-- old table waits to be dropped). target: the head when it began. passed_over: how many events could not be
-- folded; first_passed, reason: the first of them.
create table es.rebuilds (
    log_id integer not null,
    name text not null,
    version integer not null,
    state text not null check (state in ('building', 'catching_up', 'swapped', 'retiring')),
    table_name text not null,
    old_table text not null,
    checkpoint bigint not null default 0,
    target bigint not null,
    passed_over bigint not null default 0,
    first_passed bigint,
    reason text,
    started_at timestamptz not null default es.now(),
    primary key (log_id, name)
);

grant select, insert, update, delete on es.rebuilds to multica_app;
