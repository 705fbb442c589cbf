-- Takes or renews a lease; no row when somebody else has it. Locks: the lease's row.
-- $1: name, $2: holder, $3: milliseconds.
insert into es.leases as l (name, holder, until)
values ($1, $2, es.now() + $3::bigint * interval '1 millisecond')
on conflict (name) do update set holder = excluded.holder, until = excluded.until
where l.holder = excluded.holder or l.until < es.now()
returning until
