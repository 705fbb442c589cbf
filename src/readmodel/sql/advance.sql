-- Moves a follower on, if it is where it was and its table still answers; stops it where $7 says so, and lets one
-- that stood still go on. A degraded one keeps what it passed over. Locks: the row.
-- $1: log, $2: name, $3: version, $4: table, $5: from, $6: to, $7: position of an event that can't be folded, $8: why.
update es.projections
set checkpoint = $6, state = case when $7::bigint is null then 'active' else 'stopped' end,
    stopped_at = case when $7::bigint is null and state = 'active' then stopped_at else $7 end,
    stop_reason = case when $7::bigint is null and state = 'active' then stop_reason else $8 end
where log_id = $1 and name = $2 and version = $3 and table_name = $4 and checkpoint = $5
    and state in ('active', 'stopped')
