-- Rows that differ between a live table and its rebuild, in any column. {live}, {rebuilt}: the tables, {and}: what
-- makes a row of a history besides its key. $1: at most. Locks: none.
select coalesce(l.key, r.key) as key,
    l.workspace_id as l_workspace_id, l."position" as l_position, l.recorded_at as l_recorded_at, l."row" as l_row,
    r.workspace_id as r_workspace_id, r."position" as r_position, r.recorded_at as r_recorded_at, r."row" as r_row
from {live} l
full join {rebuilt} r on l.key = r.key {and}
-- 1 and 1.0 are equal as jsonb.
where l is distinct from r or l."row"::text <> r."row"::text
order by 1, coalesce(l."position", r."position") limit $1
