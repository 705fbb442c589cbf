-- A daemon's open orders. {table}: daemon_orders. $1: daemon's stream, $2: after, $3: at most. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.daemon_stream = $1 and t.position > $2
order by t.position, t.key limit $3
