-- Commands whose stored result isn't what their events give; those that were pruned are no longer there.
-- $1: log, $2: the head, $3: at most. Locks: none.
with written as (
    select command_id, count(*) as events, max(seq) as last_seq, max(recorded_at) as recorded_at
    from es.events
    where log_id = $1
    group by command_id
),
noted as (
    select * from es.commands where log_id = $1
)
select coalesce(w.command_id, n.command_id) as command_id, coalesce(w.last_seq, n.position) as position
from written w
full join noted n on n.command_id = w.command_id
where (n.command_id is null
        and not exists (select from es.prunings p where p.log_id = $1 and w.recorded_at < p.before))
    or (w.command_id is null and (n.event_count <> 0 or n.position > $2))
    or n.event_count <> w.events or n.position <> w.last_seq or n.recorded_at <> w.recorded_at
    or (w.command_id is not null and n.outcome <> 0)
order by position
limit $3
