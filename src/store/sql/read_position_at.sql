-- The last position recorded at or before a time. $1: log, $2: time. Locks: none.
-- Blocks' times never go back, so the latest such block is the last one.
select coalesce((
    select last_seq from es.log_blocks
    where log_id = $1 and recorded_at <= $2
    order by recorded_at desc, last_seq desc limit 1
), 0)::bigint
