-- A heavy list is wanted in the cache again: the only kind of task a worker may ask for by itself. It waits a moment, so
-- that what changes much is read once; what was asked for meanwhile is the same task.
CREATE OR REPLACE FUNCTION core.want_cache(list text, source text, epoch integer, wanted bigint, correlation text)
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO core.tasks AS t (kind, key, source_id, log_epoch, wanted_version, correlation_id, requested_at,
                                 next_attempt_at)
    VALUES ('cache', list, source, epoch, wanted, correlation, now(), now() + interval '1 second')
    ON CONFLICT (kind, key) DO UPDATE SET
        log_epoch = excluded.log_epoch, wanted_version = excluded.wanted_version,
        correlation_id = excluded.correlation_id, dead_at = NULL,
        done_version = CASE WHEN t.log_epoch < excluded.log_epoch THEN -1 ELSE t.done_version END,
        running_version = CASE WHEN t.log_epoch < excluded.log_epoch THEN NULL ELSE t.running_version END,
        requested_at = CASE WHEN t.wanted_version > t.done_version THEN t.requested_at ELSE now() END,
        next_attempt_at = CASE WHEN t.wanted_version > t.done_version THEN t.next_attempt_at
                               ELSE excluded.next_attempt_at END
    WHERE (excluded.log_epoch, excluded.wanted_version) > (t.log_epoch, t.wanted_version)
$$;
