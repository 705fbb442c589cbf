-- Open orders to stop, oldest first. {table}: daemon_orders. $1: workspace. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.workspace_id = $1 and t."row"->>'order_kind' = 'cancel'
order by t.position, t.key
