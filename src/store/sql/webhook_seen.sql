-- A workspace's events after a position, as far as is looked at. $1: log, $2: workspace, $3: after, $4: at most so
-- many positions, $5: up to this one. One row of nulls where there is none: the left join keeps upto. Locks: none.
with bound as (
    select least($3::bigint + $4::bigint, $5::bigint, last_seq) as upto from es.log_head where log_id = $1
)
select bound.upto, e.seq, e.stream_id, e.event_type
from bound
left join es.events e on e.log_id = $1 and e.seq > $3 and e.seq <= bound.upto and e.workspace_id = $2
order by e.seq
