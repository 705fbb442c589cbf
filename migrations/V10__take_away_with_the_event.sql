-- Erasing and removing are events: the append that writes one carries it out, so that neither is ever without
-- the other.
-- Locks: es.events against writers while the trigger is made, for an instant; readers go on.

alter table es.erasures add column position bigint;

-- Transcripts that are gone. From that moment nobody reads them and nothing is added to them; the messages
-- themselves go in bounded steps after it (es.purge_transcripts), outside the head's lock.
-- days: for how long they were kept; null where they were erased. position: the event that says so.
create table es.gone_transcripts (
    log_id integer not null,
    task_id uuid not null,
    generation integer not null,
    position bigint not null,
    days integer,
    gone_at timestamptz not null,
    left_over boolean not null default true,
    primary key (log_id, task_id, generation)
);
create index gone_transcripts_left_over on es.gone_transcripts (log_id, task_id, generation) where left_over;
grant select on es.gone_transcripts to multica_app;

-- Only what is the event's own workspace's goes: an id of another one takes nothing.
create function es.take_away() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    ids constant uuid[] := array(
        select given.id::uuid from json_array_elements_text(coalesce(new.data -> 'contents', '[]')) given(id));
begin
    insert into es.erasures (log_id, content_id, erased_at, position)
    select new.log_id, c.id, new.recorded_at, new.seq
    from es.contents c
    where c.log_id = new.log_id and c.id = any(ids) and c.workspace_id = new.workspace_id
    on conflict (log_id, content_id) do nothing;
    delete from es.contents c
    where c.log_id = new.log_id and c.id = any(ids) and c.workspace_id = new.workspace_id;

    -- Who asks later why it is gone hears the stronger reason.
    insert into es.gone_transcripts as g (log_id, task_id, generation, position, days, gone_at)
    select new.log_id, (t.one ->> 'task')::uuid, (t.one ->> 'generation')::integer, new.seq,
        (new.data ->> 'days')::integer, new.recorded_at
    from json_array_elements(coalesce(new.data -> 'transcripts', '[]')) t(one)
    where exists (
        select from es.streams s
        where s.log_id = new.log_id and s.stream_id = (t.one ->> 'task')::uuid and s.workspace_id = new.workspace_id)
    on conflict (log_id, task_id, generation) do update
    set position = excluded.position, days = excluded.days, gone_at = excluded.gone_at
    where g.days is not null and excluded.days is null;
    return null;
end
$$;

create trigger take_away after insert on es.events
for each row when (new.event_type in ('operation.erased', 'operation.transcripts_removed'))
execute function es.take_away();

-- Deletes up to p_limit messages of one transcript that is gone; of that task when one is named. Tells whether
-- there may be more. A statement that was adding messages when the transcript went may still commit them: it is
-- looked at again until p_settled milliseconds after, longer than any statement lasts.
create function es.purge_transcripts(p_log integer, p_task uuid, p_limit integer, p_settled bigint) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    one record;
begin
    select g.task_id, g.generation into one
    from es.gone_transcripts g
    where g.log_id = p_log and g.left_over and (p_task is null or g.task_id = p_task) and exists (
        select from es.transcripts t
        where t.log_id = p_log and t.task_id = g.task_id and t.generation = g.generation)
    order by g.task_id, g.generation
    limit 1;
    if found then
        delete from es.transcripts t
        where t.log_id = p_log and t.task_id = one.task_id and t.generation = one.generation and t.seq in (
            select s.seq from es.transcripts s
            where s.log_id = p_log and s.task_id = one.task_id and s.generation = one.generation
            order by s.seq
            limit p_limit);
        return true;
    end if;
    update es.gone_transcripts g set left_over = false
    where g.log_id = p_log and g.left_over and (p_task is null or g.task_id = p_task)
        and g.gone_at < es.now() - make_interval(secs => p_settled / 1000.0)
        and not exists (
            select from es.transcripts t
            where t.log_id = p_log and t.task_id = g.task_id and t.generation = g.generation);
    return false;
end
$$;

-- There is no way to take a text away without an event.
drop function es.erase_contents(integer, uuid[]);

revoke execute on function es.take_away(), es.purge_transcripts(integer, uuid, integer, bigint) from public;
grant execute on function es.purge_transcripts(integer, uuid, integer, bigint) to multica_app;
