-- How many stand there with another digest. $1: types, $2: schema versions, $3: digests, side by side.
select count(*)
from es.event_types known
join unnest($1::text[], $2::smallint[], $3::bytea[]) as said (event_type, schema_version, sha256)
using (event_type, schema_version)
where known.sha256 <> said.sha256
