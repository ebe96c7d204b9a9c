-- Make a partition of processed_events for today and `ahead` days more, and drop what is older than `kept` days.
-- Expiry goes by the database's clock and is no part of what a row says. Returns the days dropped.
CREATE OR REPLACE FUNCTION model.keep_event_days(ahead integer, kept integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
    day date;
    name text;
    old record;
    dropped integer := 0;
BEGIN
    IF kept < 1 OR ahead < 0 OR ahead > 60 THEN
        RAISE EXCEPTION 'keep_event_days: out of range';
    END IF;
    -- One projector at a time; the others have nothing to do.
    IF NOT pg_try_advisory_xact_lock(hashtext('model.keep_event_days')) THEN
        RETURN 0;
    END IF;
    FOR step IN 0..ahead LOOP
        day := today + step;
        name := 'processed_events_' || to_char(day, 'YYYYMMDD');
        -- Rows of a day that has no partition lie in the default one, and then it can't have one any more.
        IF to_regclass('model.' || name) IS NULL
            AND NOT EXISTS (SELECT FROM model.processed_events_other WHERE logged_day = day) THEN
            EXECUTE format('CREATE TABLE model.%I PARTITION OF model.processed_events FOR VALUES FROM (%L) TO (%L)',
                           name, day, day + 1);
        END IF;
    END LOOP;
    FOR old IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'model.processed_events'::regclass AND c.relname ~ '^processed_events_[0-9]{8}$'
          AND to_date(right(c.relname, 8), 'YYYYMMDD') < today - kept
    LOOP
        EXECUTE format('DROP TABLE model.%I', old.relname);
        dropped := dropped + 1;
    END LOOP;
    DELETE FROM model.processed_events_other WHERE logged_day < today - kept;
    RETURN dropped;
END $$;
