-- How deliveries stand, without counting what is over: that may be millions. $1: log, $2: webhooks. Locks: none.
select w.id as webhook_id,
    (select count(*) from es.webhook_deliveries d
        where d.log_id = $1 and d.webhook_id = w.id and d.state = 'waiting') as waiting,
    (select min(d.position) from es.webhook_deliveries d
        where d.log_id = $1 and d.webhook_id = w.id and d.state = 'waiting') as first_waiting,
    (select max(d.tried_at) from es.webhook_deliveries d
        where d.log_id = $1 and d.webhook_id = w.id and d.state = 'delivered') as delivered_at,
    (select max(d.tried_at) from es.webhook_deliveries d
        where d.log_id = $1 and d.webhook_id = w.id and d.state in ('waiting', 'dead')) as failed_at
from unnest($2::uuid[]) as w(id)
