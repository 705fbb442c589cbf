-- How every read model stands, and a rebuild beside it. $1: log. Locks: none.
select p.name, p.version, p.mode, p.state, p.table_name, p.stopped_at, p.stop_reason, p.degraded, h.last_seq as head,
    case when p.mode = 'inline' and p.state = 'active' then h.last_seq else p.checkpoint end as checkpoint,
    r.state as rebuild_state, r.checkpoint as rebuild_checkpoint, r.target as rebuild_target
from es.projections p
join es.log_head h on h.log_id = p.log_id
left join es.rebuilds r on r.log_id = p.log_id and r.name = p.name and r.version = p.version
    and r.state <> 'retiring'
where p.log_id = $1
order by p.name, p.version
