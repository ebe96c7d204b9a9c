-- Delete all rows of these people from tables of a read model that are not the live ones: those of a rebuild or of a
-- comparison, and the former ones that are kept for a rollback. The live ones follow the log by themselves, and so does
-- a copy that has come to the word that somebody is forgotten: it holds nothing of them.
CREATE OR REPLACE FUNCTION core.forget_in_copies(people text[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    copy text;
    held text;
    left_over text[];
    deleted bigint;
    total bigint := 0;
BEGIN
    FOREACH copy IN ARRAY ARRAY['model_next', 'model_old', 'model_check'] LOOP
        CONTINUE WHEN to_regclass(copy || '.forgotten_users') IS NULL;
        BEGIN
            EXECUTE format('SELECT array_agg(one) FROM unnest($1) AS one'
                           ' WHERE NOT EXISTS (SELECT FROM %I.forgotten_users f WHERE f.user_ref = one)', copy)
                INTO left_over USING people;
            CONTINUE WHEN left_over IS NULL;
            FOR held IN
                SELECT c.relname
                FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
                WHERE c.relnamespace = to_regnamespace(copy) AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                  AND a.attname = 'user_ref' AND NOT a.attisdropped AND c.relname <> 'forgotten_users'
            LOOP
                EXECUTE format('DELETE FROM %I.%I WHERE user_ref = ANY($1)', copy, held) USING left_over;
                GET DIAGNOSTICS deleted = ROW_COUNT;
                total := total + deleted;
            END LOOP;
        EXCEPTION WHEN undefined_table THEN
            NULL; -- dropped meanwhile
        END;
    END LOOP;
    RETURN total;
END $$;
