-- $1: log, $2: webhook, $3: replay, $4: workspace, $5: after this position, $6: up to this one, if it ends.
-- Locks: the row.
insert into es.webhook_cursors (log_id, webhook_id, replay, workspace_id, began, position, up_to)
values ($1, $2, $3, $4, $5, $5, $6)
on conflict (log_id, webhook_id, replay) do nothing
