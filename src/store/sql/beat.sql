-- Records a daemon's heartbeat. Locks: its row.
-- $1: daemon's stream, $2: workspace, $3: daemon, $4: incarnation.
insert into es.heartbeats (stream_id, workspace_id, daemon, incarnation, last_seen)
values ($1, $2, $3, $4, es.now())
on conflict (stream_id) do update
set incarnation = excluded.incarnation, last_seen = excluded.last_seen
returning last_seen
