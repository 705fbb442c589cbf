-- $1: types, $2: schema versions, $3: digests, side by side. Only the owner may. Locks: the rows that differ.
update es.event_types known
set sha256 = said.sha256
from unnest($1::text[], $2::smallint[], $3::bytea[]) as said (event_type, schema_version, sha256)
where known.event_type = said.event_type
and known.schema_version = said.schema_version
and known.sha256 <> said.sha256
