-- Blocks after a position, about so many events' worth. $1: log, $2: after, $3: events. Locks: none.
select first_seq, last_seq, format, prev_hash, hash, recorded_at
from es.log_blocks
where log_id = $1 and last_seq > $2
order by last_seq
limit greatest($3::bigint / 4, 1)
