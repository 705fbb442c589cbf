-- The database's clock. Locks: none.
select es.now()
