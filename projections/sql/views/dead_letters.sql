-- Letters with what became of them. Payloads are in the log only, at the letter's own position.
CREATE VIEW api.dead_letters AS
SELECT d.letter_id, d.topic, d.topic_id, d.topic_partition, d.topic_offset, d.consumer, d.cause_class, d.error_class,
       d.error_text, d.source_id, d.correlation_id, d.schema_id, d.key_bytes, d.value_bytes, d.attempts, d.failed_at,
       d.logged_at, d.number, d.partition, d.log_epoch, d.version,
       model.letter_status(m.status, m.failed_at, d.failed_at) AS status, m.actor, coalesce(m.reason, '') AS reason,
       m.marked_at, m.sent_topic, m.sent_partition, m.sent_from, m.sent_offset, coalesce(m.failures, 0) AS failures,
       m.last_error
FROM model.dead_letters d LEFT JOIN core.dead_letter_marks m ON m.letter_id = d.letter_id;
