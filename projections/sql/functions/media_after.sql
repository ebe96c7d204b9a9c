-- The first `many` media after `last` (null: from the first) that a person's list of playback shows, in order: media
-- that stay. Those that did not end are read from the index; of the others only the survivor counts.
CREATE OR REPLACE FUNCTION api.media_after(person text, last text, many bigint) RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(media_id), '{}') FROM (
        (
            SELECT p.media_id FROM model.playback_progress p
            WHERE p.user_ref = person AND p.media_id > coalesce(last, '')
              AND NOT EXISTS (SELECT FROM model.media_merges m WHERE m.media_id = p.media_id)
            ORDER BY p.media_id LIMIT many
        )
        UNION
        (
            SELECT m.survivor FROM model.playback_progress p JOIN model.media_merges m ON m.media_id = p.media_id
            WHERE p.user_ref = person AND m.survivor > coalesce(last, '')
            ORDER BY m.survivor LIMIT many
        )
        ORDER BY media_id LIMIT many
    ) AS page
$$;
