-- $1: log, $2: of this task only, or null, $3: at most so many messages, $4: how many milliseconds after it went
-- nothing is added any more. Locks: the rows that go.
select es.purge_transcripts($1, $2, $3, $4)
