-- Partitions: events by 1 000 000 positions, transcripts by month of the task's id.
-- There is no default partition: attaching beside one would have to look through it.

-- The smallest version 7 UUID of that instant.
create function es.uuid_floor(at timestamptz) returns uuid
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid
$$;

-- Keeps two partitions ahead of the head and of the clock; returns how many were made.
-- Locks: an advisory lock against a second caller; CREATE then ATTACH, which waits for no reader.
create function es.ensure_partitions() returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    width constant bigint := 1000000;
    head bigint;
    part bigint;
    month timestamptz := date_trunc('month', es.now() at time zone 'utc') at time zone 'utc';
    name text;
    made integer := 0;
begin
    perform pg_advisory_xact_lock(73088951591);
    select max(last_seq) into head from es.log_head;
    for part in select generate_series(greatest(head - 1, 0) / width, greatest(head - 1, 0) / width + 2) loop
        name := 'events_p' || lpad(part::text, 6, '0');
        if to_regclass('es.' || name) is null then
            execute format('create table es.%I (like es.events including defaults including constraints)', name);
            execute format(
                'alter table es.events attach partition es.%I for values from (%s) to (%s)',
                name, part * width + 1, (part + 1) * width + 1);
            execute format('grant select on es.%I to multica_app', name);
            made := made + 1;
        end if;
    end loop;
    if to_regclass('es.transcripts_first') is null then
        create table es.transcripts_first (like es.transcripts including defaults including constraints);
        execute format(
            'alter table es.transcripts attach partition es.transcripts_first for values from (minvalue) to (%L)',
            es.uuid_floor(month));
        made := made + 1;
    end if;
    for part in select generate_series(0, 2) loop
        name := 'transcripts_' || to_char((month at time zone 'utc') + make_interval(months => part::int), 'YYYYMM');
        if to_regclass('es.' || name) is null then
            execute format('create table es.%I (like es.transcripts including defaults including constraints)', name);
            execute format(
                'alter table es.transcripts attach partition es.%I for values from (%L) to (%L)',
                name,
                es.uuid_floor(((month at time zone 'utc') + make_interval(months => part::int)) at time zone 'utc'),
                es.uuid_floor(((month at time zone 'utc') + make_interval(months => part::int + 1)) at time zone 'utc'));
            made := made + 1;
        end if;
    end loop;
    return made;
end
$$;

select es.ensure_partitions();
