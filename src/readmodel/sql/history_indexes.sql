-- What every row history is asked by. {table}: its table. Locks: none, it is new.
-- The version that counts now: what the next change ends.
create unique index on {table} (key) where to_position is null;
-- All that counted at a position.
create index on {table} using gist (int8range("position", to_position));
