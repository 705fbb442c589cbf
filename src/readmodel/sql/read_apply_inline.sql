-- The body of the function that appends call; null when there is none. Locks: none.
select (
    select p.prosrc from pg_catalog.pg_proc p
    where p.oid = pg_catalog.to_regprocedure('rm.apply_inline(text,bigint,bigint,bigint,text,text)')
)
