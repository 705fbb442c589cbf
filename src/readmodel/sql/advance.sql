-- Moves a follower on, if it is where it was; stops it where $6 says so. Locks: the row.
-- $1: log, $2: name, $3: version, $4: from, $5: to, $6: position of an event that can't be folded, $7: why.
update es.projections
set checkpoint = $5, stopped_at = $6, stop_reason = $7,
    state = case when $6::bigint is null then state else 'stopped' end
where log_id = $1 and name = $2 and version = $3 and checkpoint = $4 and state <> 'stopped'
