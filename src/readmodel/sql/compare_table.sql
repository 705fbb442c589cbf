-- A table for a rebuild that is compared with a live one, with the live one's columns. {table}: its name, {live}: the
-- live one, {counts}: which of a row history's versions there is one of for each key. Locks: none, it is new.
create table {table} (like {live} including generated);
create unique index on {table} (key) {counts};
