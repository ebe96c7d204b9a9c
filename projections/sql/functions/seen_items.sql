-- How much of the library is seen in this statement, for each media that is one with these: the version of everything
-- said of its source so far. No invalidation of `item:{media}` up to it is news to who reads now. (0, -1): nothing was
-- ever said of it.
CREATE OR REPLACE FUNCTION api.seen_items(wanted text[])
RETURNS TABLE (media_id text, log_epoch bigint, version bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH ends AS (
        SELECT DISTINCT coalesce(m.survivor, w.media_id) AS survivor
        FROM unnest(wanted) AS w (media_id) LEFT JOIN model.media_merges m ON m.media_id = w.media_id
    ), ones AS (
        SELECT e.survivor AS media_id FROM ends e
        UNION
        SELECT m.media_id FROM ends e JOIN model.media_merges m ON m.survivor = e.survivor
    )
    SELECT o.media_id, coalesce(s.log_epoch, m.log_epoch, 0), coalesce(s.version, m.version, -1)
    FROM ones o
    LEFT JOIN model.media_items i ON i.media_id = o.media_id
    LEFT JOIN model.source_state s ON s.source_id = i.source_id
    LEFT JOIN model.media_merges m ON m.media_id = o.media_id
$$;
