-- $1: log, $2: of this task only, or null, $3: at most so many messages. Locks: the rows that go.
select es.purge_transcripts($1, $2, $3)
