-- What the append calls: made from the inline read models' upserts. {models}, {parts}: put in by install.
-- jsonb: the text is read once, whatever is taken out of it. Locks: rows of inline tables, under the head lock.
create or replace function rm.apply_inline(p_models text, p_base bigint, p_recorded bigint, p_head bigint,
    p_marker text, p_changes text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $apply$
#variable_conflict use_column
declare
    changes jsonb;
    part jsonb;
begin
    if p_models <> '{models}' then
        raise exception 'this log keeps the read models {models}' using errcode = 'MC002';
    end if;
    changes := replace(p_changes, '"' || p_marker || '"', p_recorded::text)::jsonb;
{parts}
end
$apply$
