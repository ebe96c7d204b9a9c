-- What is shown of one person's playback of one media, with its version: of media that stay, the others joined in.
-- Say whose (user_ref): a media of a person is found faster by api.progress_of, on which this stands.
CREATE VIEW api.progress AS
SELECT f.model_epoch, f.log_epoch, f.partition, f.version, theirs.user_ref, f.media_id, f.media_kind, f.epoch,
       f.epoch_started_at, f.phase, f.position_ms, f.resume_position_ms, f.duration_ms, f.played, f.play_count,
       f.last_played_at, f.listened_ms, f.event_time, f.session_id, f.device_id, f.pending, f.conflict,
       f.source_event_id, f.source_event_time, f.source_device_id, f.updated_ms, f.correlation_id, f.resumable, f.joined
FROM (
    SELECT user_ref, array_agg(media_id) AS media FROM model.playback_progress GROUP BY user_ref
) AS theirs
CROSS JOIN LATERAL api.progress_of(theirs.user_ref, theirs.media) AS f;
