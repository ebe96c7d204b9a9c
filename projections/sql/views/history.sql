-- Turns of playback, and one progress a minute, in the order of the log.
CREATE VIEW api.history AS
SELECT log_epoch, partition, version, user_ref, media_id, event_id, source_id, kind, origin, verdict, reason, notes,
       session_id, device_id, report_position_ms, event_time, occurred_at, logged_at, position_moved, play_counted,
       epoch, phase, position_ms, correlation_id
FROM model.progress_history;
