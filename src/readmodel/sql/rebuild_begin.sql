-- Begins a rebuild. $1: log, $2: name, $3: version, $4: table, $5: the table that answers. Locks: the row.
insert into es.rebuilds (log_id, name, version, state, table_name, old_table, target)
select $1, $2, $3, 'building', $4, $5, h.last_seq from es.log_head h where h.log_id = $1
