-- $1: types, $2: schema versions, $3: digests, side by side. Locks: the new rows.
insert into es.event_types (event_type, schema_version, sha256)
select * from unnest($1::text[], $2::smallint[], $3::bytea[])
on conflict (event_type, schema_version) do nothing
