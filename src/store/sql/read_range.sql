-- Events after a position, with the position that the range must reach. Locks: none.
-- $1: log, $2: after this position, $3: at most so many.
-- One row of nulls when the log ends there: the left join keeps upto.
with bound as (
    select least($2::bigint + $3::bigint, last_seq) as upto from es.log_head where log_id = $1
)
select bound.upto, e.seq, e.workspace_id, e.family, e.stream_id, e.version, e.event_id, e.command_id, e.correlation_id,
    e.causation, e.event_type, e.schema_version, e.actor_type, e.actor_id, e.actor_via, e.occurred_at,
    e.recorded_at, e.data::text as data, e.meta::text as meta
from bound
left join es.events e on e.log_id = $1 and e.seq > $2 and e.seq <= bound.upto
order by e.seq
