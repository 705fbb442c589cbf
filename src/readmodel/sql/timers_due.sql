-- Timers that run for too long, oldest first. {table}: timers. $1: kinds, $2: microseconds, $3: at most. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.timer_kind = any($1) and t.since + $2 <= es.micros(es.now())
order by t.since limit $3
