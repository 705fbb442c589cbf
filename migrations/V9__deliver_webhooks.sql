-- Webhooks: how far the log was gone through for each, and what became of each delivery. Facts of the machinery, no
-- read model: what was sent outside can't be computed from the log, and a rebuild doesn't touch it.
-- Locks: none that matter, the tables are new.

-- replay: 0 for what happens, else the position of the event that asked for a replay.
-- began: nothing up to there is delivered by it. position: every event up to there has its delivery, or needs none.
-- up_to: where a replay ends. forgotten: deliveries of events up to there may have been forgotten.
create table es.webhook_cursors (
    log_id integer not null,
    webhook_id uuid not null,
    replay bigint not null,
    workspace_id uuid not null,
    began bigint not null,
    position bigint not null,
    up_to bigint,
    forgotten bigint not null default 0,
    primary key (log_id, webhook_id, replay)
) with (fillfactor = 70);

-- attempts, round: how often it was tried since it was made due the round-th time.
create table es.webhook_deliveries (
    log_id integer not null,
    webhook_id uuid not null,
    position bigint not null,
    stream_id uuid not null,
    event_type text not null,
    state text not null check (state in ('waiting', 'delivered', 'dead')),
    round integer not null default 1,
    attempts integer not null default 0,
    due_at timestamptz not null,
    tried_at timestamptz,
    problem text,
    status integer,
    millis integer,
    primary key (log_id, webhook_id, position)
) with (fillfactor = 70);

-- What waits: of each stream the first goes first.
create index webhook_deliveries_waiting on es.webhook_deliveries (log_id, webhook_id, stream_id, position)
where state = 'waiting';
create index webhook_deliveries_dead on es.webhook_deliveries (log_id, webhook_id, position) where state = 'dead';
-- What is forgotten one day.
create index webhook_deliveries_over on es.webhook_deliveries (log_id, webhook_id, tried_at) where state = 'delivered';

grant select, insert, update, delete on es.webhook_cursors, es.webhook_deliveries to multica_app;
