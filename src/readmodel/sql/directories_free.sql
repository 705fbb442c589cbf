-- Free directories with waiting tasks. {table}: directory_queue. Locks: none.
select t.key, t.workspace_id, t.position, t.recorded_at, t."row" as object from {table} t
where t.holder is null and t.waiting > 0
order by t.directory_id
