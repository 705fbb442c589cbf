-- Which of these contents were erased. $1: log, $2: ids. Locks: none.
select content_id from es.erasures where log_id = $1 and content_id = any($2)
