-- Which of these texts are there. $1: log, $2: workspace, $3: ids. Locks: none.
select id from es.contents where log_id = $1 and workspace_id = $2 and id = any($3)
