-- Refused commands stand in the audit trail, newest first and bounded by position.
-- Locks: writers of es.commands while the index is built; refused commands of thirty days are few.
create index commands_refused on es.commands (log_id, workspace_id, position, recorded_at, command_id)
where outcome = 1;
