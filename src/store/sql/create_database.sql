-- The product's database in its own cluster. Locks: none that matter.
create database multica template template0
