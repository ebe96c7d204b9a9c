-- Delete all rows of these people from tables of a read model that are not the live ones: those of a rebuild, and the
-- former ones that are kept for a rollback. The live ones follow the log by themselves.
CREATE OR REPLACE FUNCTION core.forget_in_copies(people text[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    copy record;
    deleted bigint;
    total bigint := 0;
BEGIN
    FOR copy IN
        SELECT n.nspname, c.relname
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE n.nspname IN ('model_next', 'model_old') AND c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND a.attname = 'user_ref' AND NOT a.attisdropped AND c.relname <> 'forgotten_users'
    LOOP
        EXECUTE format('DELETE FROM %I.%I WHERE user_ref = ANY($1)', copy.nspname, copy.relname) USING people;
        GET DIAGNOSTICS deleted = ROW_COUNT;
        total := total + deleted;
    END LOOP;
    RETURN total;
END $$;
