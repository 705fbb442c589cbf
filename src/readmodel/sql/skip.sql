-- Passes over the event at which a follower stopped. $1: log, $2: name, $3: version, $4: position. Locks: the row.
update es.projections p
set checkpoint = p.stopped_at, state = 'active', degraded = true
where p.log_id = $1 and p.name = $2 and p.version = $3 and p.state = 'stopped' and p.stopped_at = $4
returning p.checkpoint
