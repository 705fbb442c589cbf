-- Lets a lease go. $1: name, $2: holder. Locks: the lease's row.
delete from es.leases where name = $1 and holder = $2
