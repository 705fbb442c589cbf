-- The head at the last swap of a table: rows read at it or before may be the former table's. {head}: put in by the
-- swap. Locks: none.
create or replace function rm.swapped_at() returns bigint
language sql stable
as $swapped$ select {head}::bigint $swapped$;
