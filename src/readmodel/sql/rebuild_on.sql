-- A rebuild has come further. $1: log, $2: name, $3: state, $4: checkpoint, $5: events passed over, $6: the first of
-- them, $7: why. Locks: the row.
update es.rebuilds
set state = $3, checkpoint = $4, passed_over = passed_over + $5, first_passed = coalesce(first_passed, $6),
    reason = coalesce(reason, $7)
where log_id = $1 and name = $2
returning passed_over, first_passed, reason
