-- What became of each report, for 30 days.
CREATE VIEW api.events AS
SELECT event_id, source_id, user_ref, media_id, kind, origin, verdict, reason, notes, report_position_ms, position_ms,
       occurred_at, received_at, event_time, logged_at, logged_day, correlation_id, cause_topic_id, cause_partition,
       cause_offset, cause_index, log_epoch, partition, version, projected_at
FROM model.processed_events;
