-- Locks: an advisory lock against a second caller; attaching waits for no reader.
select es.ensure_partitions()
