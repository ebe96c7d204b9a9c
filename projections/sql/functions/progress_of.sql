-- What is shown of one person's playback of these media, one row for each media that stays and has any.
-- `wanted` may name media that ended: they lead to their survivor, whose `place` is the first of them in `wanted`.
--
-- The survivor's own row is joined with the rows of media that ended in it, unless the agent has taken their state in
-- already (`joined` of another row names them): position, phase, epoch and all that belongs to it are those of the row
-- with the newest event time, played is or, counts add up (streams/domain/join.py does the same with whole states).
-- The version is the newest of the rows: they lie in one partition. `joined` names all whose state is in it.
CREATE OR REPLACE FUNCTION api.progress_of(person text, wanted text[]) RETURNS TABLE (
    place bigint, model_epoch bigint, log_epoch bigint, partition integer, version bigint, user_ref text, media_id text,
    media_kind text, epoch bigint, epoch_started_at bigint, phase text, position_ms bigint, resume_position_ms bigint,
    duration_ms bigint, played boolean, play_count bigint, last_played_at bigint, listened_ms bigint, event_time bigint,
    session_id text, device_id text, pending jsonb, conflict jsonb, source_event_id text, source_event_time bigint,
    source_device_id text, updated_ms bigint, correlation_id text, resumable boolean, joined text[]
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH asked AS (
        SELECT coalesce(m.survivor, w.media_id) AS survivor, min(w.place) AS place
        FROM unnest(wanted) WITH ORDINALITY AS w (media_id, place)
        LEFT JOIN model.media_merges m ON m.media_id = w.media_id
        GROUP BY 1
    ), members AS (
        SELECT a.survivor, a.survivor AS media_id FROM asked a
        UNION ALL
        SELECT m.survivor, m.media_id FROM asked a JOIN model.media_merges m ON m.survivor = a.survivor
    ), parts AS (
        SELECT m.survivor, p.*
        FROM members m JOIN model.playback_progress p ON p.user_ref = person AND p.media_id = m.media_id
        WHERE NOT EXISTS (
            SELECT FROM model.playback_progress q
            WHERE q.user_ref = person AND q.joined <> '{}' AND q.media_id <> p.media_id
              AND p.media_id = ANY (q.joined)
        )
    ), sums AS (
        SELECT p.survivor, max(ARRAY[p.log_epoch, p.version]) AS newest, bool_or(p.played) AS played,
               sum(p.play_count)::bigint AS play_count, max(p.last_played_at) AS last_played_at,
               sum(p.listened_ms)::bigint AS listened_ms, max(p.updated_ms) AS updated_ms,
               (array_agg(p.correlation_id ORDER BY p.log_epoch DESC, p.version DESC))[1] AS correlation_id
        FROM parts p GROUP BY p.survivor
    ), shown AS (
        SELECT DISTINCT ON (p.survivor) p.*
        FROM parts p
        ORDER BY p.survivor, p.event_time DESC, p.epoch DESC, p.epoch_started_at DESC NULLS LAST, p.phase DESC,
                 p.position_ms DESC, p.media_id
    ), taken AS (
        SELECT p.survivor, array_agg(DISTINCT one ORDER BY one) AS joined
        FROM parts p CROSS JOIN LATERAL unnest(p.joined || p.media_id) AS one
        WHERE one <> p.survivor GROUP BY p.survivor
    )
    SELECT a.place, e.model_epoch, s.newest[1], p.partition, s.newest[2], p.user_ref, p.survivor, p.media_kind,
           p.epoch, p.epoch_started_at, p.phase, p.position_ms, p.resume_position_ms, p.duration_ms, s.played,
           s.play_count, s.last_played_at, s.listened_ms, p.event_time, p.session_id, p.device_id, p.pending,
           p.conflict, p.source_event_id, p.source_event_time, p.source_device_id, s.updated_ms, s.correlation_id,
           p.resumable, coalesce(t.joined, '{}')
    FROM shown p
    JOIN asked a ON a.survivor = p.survivor
    JOIN sums s ON s.survivor = p.survivor
    LEFT JOIN taken t ON t.survivor = p.survivor
    CROSS JOIN model.epoch e
$$;
