-- How far each webhook is, and whether there is something to do for it. $1: log, $2: webhook, or null for
-- all. Locks: none.
-- behind: events to go through. due: of a stream, the first that waits is due.
select c.webhook_id, c.workspace_id, c.replay, c.began, c.position, c.up_to, c.forgotten,
    c.position < least(h.last_seq, coalesce(c.up_to, h.last_seq)) as behind,
    c.replay = 0 and exists (
        select from es.webhook_deliveries d
        where d.log_id = c.log_id and d.webhook_id = c.webhook_id and d.state = 'waiting' and d.due_at <= es.now()
            and not exists (
                select from es.webhook_deliveries e
                where e.log_id = d.log_id and e.webhook_id = d.webhook_id and e.stream_id = d.stream_id
                    and e.state = 'waiting' and e.position < d.position)
    ) as due
from es.webhook_cursors c
join es.log_head h on h.log_id = c.log_id
where c.log_id = $1 and ($2::uuid is null or c.webhook_id = $2)
order by c.webhook_id, c.replay
