-- Where to go on. Not a table of its own: the list and the rows can never disagree. What can be resumed after media
-- were joined could be resumed in one of them before, so the index of those finds all.
CREATE VIEW api.continue_watching AS
SELECT f.model_epoch, f.log_epoch, f.partition, f.version, theirs.user_ref, f.media_id, f.media_kind, f.epoch, f.phase,
       f.position_ms, f.resume_position_ms, f.duration_ms, f.played, f.play_count, f.event_time, f.device_id,
       f.updated_ms, f.joined
FROM (
    SELECT user_ref, array_agg(media_id) AS media FROM model.playback_progress WHERE resumable GROUP BY user_ref
) AS theirs
CROSS JOIN LATERAL api.progress_of(theirs.user_ref, theirs.media) AS f
WHERE f.resumable;
