-- Streams whose row isn't what their events give. $1: log, $2: at most. Locks: none.
with written as (
    select stream_id, count(*) as events, max(seq) as last_seq
    from es.events
    where log_id = $1
    group by stream_id
),
noted as (
    select s.stream_id, s.version, s.last_seq, e.stream_id = s.stream_id and e.version = s.version
        and e.family = s.family and e.workspace_id = s.workspace_id as fits
    from es.streams s
    left join es.events e on e.log_id = s.log_id and e.seq = s.last_seq
    where s.log_id = $1
)
select coalesce(w.stream_id, n.stream_id) as stream_id, coalesce(w.last_seq, n.last_seq) as position
from written w
full join noted n on n.stream_id = w.stream_id
where n.stream_id is null or w.stream_id is null or n.fits is not true
    or n.version <> w.events or n.last_seq <> w.last_seq
order by position
limit $2
