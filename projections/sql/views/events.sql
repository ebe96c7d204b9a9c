-- What became of each report, for 30 days; its media is the one that stays.
CREATE VIEW api.events AS
SELECT p.event_id, p.source_id, p.user_ref, coalesce(m.survivor, p.media_id) AS media_id,
       p.media_id AS decided_media_id, p.kind, p.origin, p.verdict, p.reason, p.notes, p.report_position_ms,
       p.position_ms, p.occurred_at, p.received_at, p.event_time, p.logged_at, p.logged_day, p.correlation_id,
       p.cause_topic_id, p.cause_partition, p.cause_offset, p.cause_index, p.log_epoch, p.partition, p.version,
       p.projected_at
FROM model.processed_events p LEFT JOIN model.media_merges m ON m.media_id = p.media_id;
