-- Sources with what is counted of each; no version: nothing is known of its library yet.
CREATE VIEW api.sources AS
SELECT e.model_epoch, s.log_epoch, s.partition, s.version, s.items_log_epoch, s.items_version, c.source_id, c.kind,
       c.name, coalesce(s.held, false) AS held, s.held_reason, s.held_changed_at,
       coalesce(s.held_removals, 0) AS held_removals, s.finalized_generation, coalesce(s.present, 0) AS present,
       coalesce(s.provisional, 0) AS provisional, coalesce(s.missing, 0) AS missing,
       coalesce(s.archived, 0) AS archived, coalesce(s.deleted, 0) AS deleted,
       (SELECT max(generation) FROM model.scan_sessions n WHERE n.source_id = c.source_id) AS last_generation
FROM core.sources c LEFT JOIN model.source_state s USING (source_id) CROSS JOIN model.epoch e;
