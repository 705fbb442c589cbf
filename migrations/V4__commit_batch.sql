-- The append. One call writes one batch of commands, whole or not at all.

-- Locks the head row until the end of the transaction and returns the head: for a swap of read models.
create function es.lock_head(p_log integer) returns bigint
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select last_seq from es.log_head where log_id = p_log for update
$$;

-- Microseconds since 1970.
create function es.micros(at timestamptz) returns bigint
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select (extract(epoch from at) * 1000000)::bigint
$$;

-- Tells whether rm.apply_inline can't run with more rights than the application has.
create function es.apply_inline_is_safe() returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select coalesce((
        select p.prosecdef and pg_get_userbyid(p.proowner) = 'multica_app'
        from pg_proc p
        where p.oid = to_regprocedure('rm.apply_inline(text,bigint,bigint,bigint,text,text)')
    ), false)
$$;

-- Arguments, in groups of arrays that run in parallel:
--   c_*  the commands whose results are stored; c_last: the ordinal of the last event, 0 for none
--   s_*  every stream that a decision has seen, with the version that it saw
--   w_*  every stream written: its new version and the ordinal of its last event
--   e_*  the events, in order; leaves: their leaf hashes, 32 bytes each
--   k_*  contents
--   f_*  reservations freed, in order; t_*  reservations taken, in order; t_after: how many of f_* came
--        before; t_keep: false where the batch itself frees it again
--   m_*  read models: the set that the writer knows, the head that its rows were read at, the marker
--        that stands for recorded_at, the changes
-- Answers: committed, or why nothing was written: known (command ids), moved (streams), taken (keys).
-- Locks: the head row first, as a statement of its own, so that every later statement sees all that was
-- committed before; held until the commit. Index plans always: a plan made on empty tables would stay; and
-- no JIT, which the price of a scan that can't be avoided would start.
create function es.commit_batch(
    p_log integer,
    c_id uuid[], c_workspace uuid[], c_kind text[], c_fingerprint bytea[], c_outcome smallint[],
    c_last integer[], c_count integer[], c_result text[],
    c_actor_type text[], c_actor_id text[], c_actor_via text[],
    s_id uuid[], s_version integer[],
    w_id uuid[], w_family text[], w_workspace uuid[], w_version integer[], w_last integer[],
    e_workspace uuid[], e_family text[], e_stream uuid[], e_version integer[], e_id uuid[], e_command uuid[],
    e_correlation uuid[], e_causation bigint[], e_type text[], e_schema smallint[],
    e_actor_type text[], e_actor_id text[], e_actor_via text[], e_occurred timestamptz[],
    e_data text[], e_meta text[], leaves bytea,
    k_id uuid[], k_workspace uuid[], k_salt bytea[], k_bytes bytea[],
    f_class text[], f_holder uuid[],
    t_key text[], t_class text[], t_holder uuid[], t_after integer[], t_keep boolean[],
    m_models text, m_head bigint, m_marker text, m_changes text,
    out answer text, out last_seq bigint, out recorded_at timestamptz, out detail json
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    head es.log_head%rowtype;
    events_count constant bigint := cardinality(e_id);
    block bytea;
begin
    select * into strict head from es.log_head h where h.log_id = p_log for update;
    last_seq := head.last_seq;
    recorded_at := greatest(es.now(), head.last_recorded_at);

    select json_agg(json_build_object(
            'command_id', c.command_id, 'fingerprint', encode(c.fingerprint, 'hex'), 'outcome', c.outcome,
            'position', c.position, 'event_count', c.event_count, 'result', c.result))
    into detail
    from unnest(c_id) given(id)
    join es.commands c on c.log_id = p_log and c.command_id = given.id;
    if detail is not null then
        answer := 'known';
        return;
    end if;

    select json_agg(seen.id) into detail
    from unnest(s_id, s_version) seen(id, version)
    left join es.streams s on s.log_id = p_log and s.stream_id = seen.id
    where coalesce(s.version, 0) <> seen.version;
    if detail is not null then
        answer := 'moved';
        return;
    end if;

    if cardinality(t_key) > 0 then
        select json_agg(distinct r.key) into detail
        from unnest(t_key, t_holder, t_after) taken(key, holder, after)
        join es.reservations r on r.log_id = p_log and r.key = taken.key
        where r.holder <> taken.holder and not exists (
            select from unnest(f_class, f_holder) with ordinality freed(class, holder, ordinal)
            where freed.ordinal <= taken.after and freed.class = r.class and freed.holder = r.holder);
        if detail is not null then
            answer := 'taken';
            return;
        end if;
    end if;

    if cardinality(f_class) > 0 then
        delete from es.reservations r
        using unnest(f_class, f_holder) freed(class, holder)
        where r.log_id = p_log and r.class = freed.class and r.holder = freed.holder;
    end if;
    if cardinality(t_key) > 0 then
        insert into es.reservations (log_id, key, class, holder)
        select p_log, taken.key, taken.class, taken.holder
        from unnest(t_key, t_class, t_holder, t_keep) taken(key, class, holder, keep)
        where taken.keep
        on conflict (log_id, key) do nothing;
    end if;

    if cardinality(k_id) > 0 then
        insert into es.contents (log_id, id, workspace_id, salt, bytes)
        select p_log, k.id, k.workspace_id, k.salt, k.bytes
        from unnest(k_id, k_workspace, k_salt, k_bytes) k(id, workspace_id, salt, bytes);
    end if;

    insert into es.commands (log_id, command_id, workspace_id, kind, fingerprint, outcome, position,
        event_count, result, actor_type, actor_id, actor_via, recorded_at)
    select p_log, c.id, c.workspace_id, c.kind, c.fingerprint, c.outcome,
        head.last_seq + case when c.last > 0 then c.last else events_count end,
        c.count, c.result::json, c.actor_type, c.actor_id, c.actor_via, commit_batch.recorded_at
    from unnest(c_id, c_workspace, c_kind, c_fingerprint, c_outcome, c_last, c_count, c_result,
            c_actor_type, c_actor_id, c_actor_via)
        c(id, workspace_id, kind, fingerprint, outcome, last, count, result, actor_type, actor_id, actor_via);

    answer := 'committed';
    if events_count = 0 then
        return;
    end if;
    if length(leaves) <> events_count * 32 then
        raise exception 'a leaf hash for each event' using errcode = 'invalid_parameter_value';
    end if;

    insert into es.events (log_id, seq, workspace_id, family, stream_id, version, event_id, command_id,
        correlation_id, causation, event_type, schema_version, actor_type, actor_id, actor_via,
        occurred_at, recorded_at, data, meta)
    select p_log, head.last_seq + e.ordinal, e.workspace_id, e.family, e.stream_id, e.version, e.event_id,
        e.command_id, e.correlation_id, e.causation, e.event_type, e.schema_version,
        e.actor_type, e.actor_id, e.actor_via, e.occurred_at, commit_batch.recorded_at,
        e.data::json, e.meta::json
    from unnest(e_workspace, e_family, e_stream, e_version, e_id, e_command, e_correlation, e_causation,
            e_type, e_schema, e_actor_type, e_actor_id, e_actor_via, e_occurred, e_data, e_meta)
        with ordinality
        e(workspace_id, family, stream_id, version, event_id, command_id, correlation_id, causation,
            event_type, schema_version, actor_type, actor_id, actor_via, occurred_at, data, meta, ordinal);

    insert into es.streams as s (log_id, stream_id, family, workspace_id, version, last_seq)
    select p_log, w.id, w.family, w.workspace_id, w.version, head.last_seq + w.last
    from unnest(w_id, w_family, w_workspace, w_version, w_last) w(id, family, workspace_id, version, last)
    on conflict (log_id, stream_id) do update set version = excluded.version, last_seq = excluded.last_seq;

    block := sha256('\x01'::bytea || head.last_block_hash || int4send(p_log) || int8send(head.last_seq + 1)
        || int8send(es.micros(recorded_at)) || leaves);
    last_seq := head.last_seq + events_count;
    insert into es.log_blocks (log_id, first_seq, last_seq, format, prev_hash, hash, recorded_at)
    values (p_log, head.last_seq + 1, commit_batch.last_seq, 1, head.last_block_hash, block,
        commit_batch.recorded_at);

    if not es.apply_inline_is_safe() then
        raise exception 'rm.apply_inline must be SECURITY DEFINER and owned by multica_app'
            using errcode = 'MC003';
    end if;
    perform rm.apply_inline(m_models, head.last_seq, es.micros(recorded_at), m_head, m_marker, m_changes);

    update es.log_head h
    set last_seq = commit_batch.last_seq, last_block_hash = block, last_recorded_at = commit_batch.recorded_at
    where h.log_id = p_log;
end
$$;

-- Deletes stored results of commands recorded before p_before: they can't be answered again.
create function es.prune_commands(p_log integer, p_before timestamptz) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    gone bigint;
begin
    delete from es.commands where log_id = p_log and recorded_at < p_before;
    get diagnostics gone = row_count;
    return gone;
end
$$;

-- Deletes contents for good; the events keep length and digest. Returns how many there were.
create function es.erase_contents(p_log integer, p_ids uuid[]) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    gone bigint;
begin
    delete from es.contents where log_id = p_log and id = any(p_ids);
    get diagnostics gone = row_count;
    return gone;
end
$$;

-- Functions are executable by everybody unless said otherwise.
revoke execute on all functions in schema es from public;
grant execute on all functions in schema es to multica_app;
revoke execute on function es.refuse_change() from multica_app;

-- Until read models are installed there are none; generated later by the application, as itself.
grant usage, create on schema rm to multica_app;
set local role multica_app;
create function rm.apply_inline(p_models text, p_base bigint, p_recorded bigint, p_head bigint,
    p_marker text, p_changes text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if p_models <> '' then
        raise exception 'the read models of this build are not installed' using errcode = 'MC002';
    end if;
end
$$;
reset role;
