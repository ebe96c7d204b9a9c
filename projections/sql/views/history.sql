-- Turns of playback, and one progress a minute, in the order of the log. What was decided under a media that ended
-- since is history of the one that stays; decided_media_id is the one it was decided under, and indexed.
CREATE VIEW api.history AS
SELECT h.log_epoch, h.partition, h.version, h.user_ref, coalesce(m.survivor, h.media_id) AS media_id,
       h.media_id AS decided_media_id, h.event_id, h.source_id, h.kind, h.origin, h.verdict, h.reason, h.notes,
       h.session_id, h.device_id, h.report_position_ms, h.event_time, h.occurred_at, h.logged_at, h.position_moved,
       h.play_counted, h.epoch, h.phase, h.position_ms, h.correlation_id
FROM model.progress_history h LEFT JOIN model.media_merges m ON m.media_id = h.media_id;
