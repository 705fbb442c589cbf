-- Heartbeats and how old they are. $1: streams, or null for all. Locks: none.
select stream_id, workspace_id, daemon, incarnation, last_seen,
    (extract(epoch from es.now() - last_seen) * 1000)::bigint as silent_ms
from es.heartbeats
where $1::uuid[] is null or stream_id = any($1)
