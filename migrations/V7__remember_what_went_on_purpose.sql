-- What is no longer there on purpose: erased contents, pruned results. Without it a text that was taken away
-- behind the program's back looks like one that was erased.
-- Locks: none that matter, the tables are new.

create table es.erasures (
    log_id integer not null,
    content_id uuid not null,
    erased_at timestamptz not null,
    primary key (log_id, content_id)
);

-- Results of commands recorded before that time were pruned.
create table es.prunings (
    log_id integer primary key,
    before timestamptz not null
);

grant select on es.erasures, es.prunings to multica_app;

create or replace function es.prune_commands(p_log integer, p_before timestamptz) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    gone bigint;
begin
    insert into es.prunings as p (log_id, before) values (p_log, p_before)
    on conflict (log_id) do update set before = greatest(p.before, excluded.before);
    delete from es.commands where log_id = p_log and recorded_at < p_before;
    get diagnostics gone = row_count;
    return gone;
end
$$;

create or replace function es.erase_contents(p_log integer, p_ids uuid[]) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    gone bigint;
begin
    insert into es.erasures (log_id, content_id, erased_at)
    select p_log, c.id, es.now() from es.contents c where c.log_id = p_log and c.id = any(p_ids)
    on conflict (log_id, content_id) do nothing;
    delete from es.contents where log_id = p_log and id = any(p_ids);
    get diagnostics gone = row_count;
    return gone;
end
$$;
