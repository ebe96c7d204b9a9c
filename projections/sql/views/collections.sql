-- Albums, artists, folders and the like, each of one source. Key and name of a folder are parts of paths.
CREATE VIEW api.collections AS
SELECT e.model_epoch, c.log_epoch, c.partition, c.version, c.collection_id, c.source_id, c.kind, c.key, c.name,
       c.present, c.provisional, c.missing, c.archived, c.deleted
FROM model.collections c CROSS JOIN model.epoch e;
