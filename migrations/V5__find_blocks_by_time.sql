-- Finds the last position recorded at or before a time: what `?as_of=<time>` asks.
create index log_blocks_by_time on es.log_blocks (log_id, recorded_at, last_seq);
