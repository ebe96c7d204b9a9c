-- Where to go on. Not a table of its own: the list and the rows can never disagree.
CREATE VIEW api.continue_watching AS
SELECT e.model_epoch, p.log_epoch, p.partition, p.version, p.user_ref, p.media_id, p.media_kind, p.epoch, p.phase,
       p.position_ms, p.resume_position_ms, p.duration_ms, p.played, p.play_count, p.event_time, p.device_id,
       p.updated_ms
FROM model.playback_progress p CROSS JOIN model.epoch e
WHERE p.resumable;
