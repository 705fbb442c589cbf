-- Everything that followed from one intent. $1: log, $2: correlation, $3: up to this position. Locks: none.
select e.seq, e.workspace_id, e.family, e.stream_id, e.version, e.event_id, e.command_id, e.correlation_id,
    e.causation, e.event_type, e.schema_version, e.actor_type, e.actor_id, e.actor_via, e.occurred_at,
    e.recorded_at, e.data::text as data, e.meta::text as meta
from es.events e
where e.log_id = $1 and e.correlation_id = $2 and e.seq <= $3
order by e.seq
