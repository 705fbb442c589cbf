-- The table of event types. Locks: none.
select event_type, schema_version, sha256 from es.event_types
