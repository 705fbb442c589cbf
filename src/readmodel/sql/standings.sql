-- How every read model stands. $1: log. Locks: none.
select p.name, p.version, p.mode, p.state, p.table_name, p.stopped_at, p.stop_reason, p.degraded,
    case when p.mode = 'inline' and p.state = 'active' then h.last_seq else p.checkpoint end as checkpoint
from es.projections p
join es.log_head h on h.log_id = p.log_id
where p.log_id = $1
order by p.name, p.version
