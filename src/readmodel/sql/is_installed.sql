-- Whether a table of that version answers. $1: log, $2: name, $3: version. Locks: none.
select exists (
    select from es.projections
    where log_id = $1 and name = $2 and version = $3 and state in ('active', 'stopped')
)
