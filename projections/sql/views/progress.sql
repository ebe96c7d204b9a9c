-- What is shown of one person's playback of one media, with its version.
CREATE VIEW api.progress AS
SELECT e.model_epoch, p.log_epoch, p.partition, p.version, p.user_ref, p.media_id, p.media_kind, p.epoch,
       p.epoch_started_at, p.phase, p.position_ms, p.resume_position_ms, p.duration_ms, p.played, p.play_count,
       p.last_played_at, p.listened_ms, p.event_time, p.session_id, p.device_id, p.pending, p.conflict,
       p.source_event_id, p.source_event_time, p.source_device_id, p.updated_ms, p.correlation_id, p.resumable
FROM model.playback_progress p CROSS JOIN model.epoch e;
