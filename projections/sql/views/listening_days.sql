-- Listening time by person, media that stays, source and UTC day of the event.
CREATE VIEW api.listening_days AS
SELECT l.user_ref, coalesce(m.survivor, l.media_id) AS media_id, l.source_id,
       (timestamp '1970-01-01' + l.event_time * interval '1 millisecond')::date AS day, sum(l.added_ms) AS listened_ms
FROM model.listening_time l LEFT JOIN model.media_merges m ON m.media_id = l.media_id
GROUP BY l.user_ref, coalesce(m.survivor, l.media_id), l.source_id, day;
