-- One row for each play that counted, of the media that stays.
CREATE VIEW api.plays AS
SELECT p.log_epoch, p.partition, p.version, p.user_ref, coalesce(m.survivor, p.media_id) AS media_id,
       p.media_id AS decided_media_id, p.epoch, p.event_id, p.source_id, p.session_id, p.device_id, p.media_kind,
       p.event_time, p.logged_at, p.correlation_id
FROM model.plays p LEFT JOIN model.media_merges m ON m.media_id = p.media_id;
