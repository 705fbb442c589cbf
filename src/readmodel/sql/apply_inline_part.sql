-- One read model's part of rm.apply_inline. {table}, {key}, {upsert}: put in by install.
    part := changes -> '{key}';
    if part is not null then
        if (p_head <> p_base or p_head <= rm.swapped_at()) and exists (
            select from jsonb_to_recordset(part -> 'seen') as seen(key text, position bigint)
            left join {table} t on t.key = seen.key
            where coalesce(t.position, 0) <> seen.position
        ) then
            raise exception 'rows of {key} have changed' using errcode = 'MC001';
        end if;
        {upsert};
    end if;
