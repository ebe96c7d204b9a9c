-- Listening time by person, media, source and UTC day of the event.
CREATE VIEW api.listening_days AS
SELECT user_ref, media_id, source_id,
       (timestamp '1970-01-01' + event_time * interval '1 millisecond')::date AS day, sum(added_ms) AS listened_ms
FROM model.listening_time
GROUP BY user_ref, media_id, source_id, day;
