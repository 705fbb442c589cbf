-- Passes over the event at which a follower stopped. $1: log, $2: name, $3: version. Locks: the row.
with stopped as (
    select stopped_at from es.projections
    where log_id = $1 and name = $2 and version = $3 and state = 'stopped'
    for update
)
update es.projections p
set checkpoint = s.stopped_at, state = 'active', stopped_at = null, stop_reason = null, degraded = true
from stopped s
where p.log_id = $1 and p.name = $2 and p.version = $3
returning p.checkpoint
