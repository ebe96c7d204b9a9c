-- Scans, and what became of them.
CREATE VIEW api.scans AS
SELECT e.model_epoch, s.log_epoch, s.partition, s.version, s.source_id || ':' || s.generation AS scan_id, s.source_id,
       s.generation, s.requested_by, s.status, s.reason, s.observations, s.seen, s.added, s.changed, s.moved,
       s.missing, s.present_before, s.unreadable, s.skipped, s.started_at, s.changed_at, s.held_at, s.ended_at,
       s.correlation_id
FROM model.scan_sessions s CROSS JOIN model.epoch e;
