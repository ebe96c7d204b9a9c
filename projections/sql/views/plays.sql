-- One row for each play that counted.
CREATE VIEW api.plays AS
SELECT log_epoch, partition, version, user_ref, media_id, epoch, event_id, source_id, session_id, device_id, media_kind,
       event_time, logged_at, correlation_id
FROM model.plays;
