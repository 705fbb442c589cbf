-- Who we are, and whether that is more than the application may be. Locks: none.
select
    current_user::text as name,
    (select rolsuper from pg_catalog.pg_roles where rolname = current_user) as is_superuser,
    exists (
        select from pg_catalog.pg_namespace n
        where n.nspname = 'es' and pg_catalog.pg_has_role(current_user, n.nspowner, 'usage')
    ) as owns_log
