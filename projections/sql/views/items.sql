-- Items that are an item of their own. last_seen_generation: of a present item that can be read the newest finalized
-- scan has seen it too, though it wrote nothing; it is no part of the version.
CREATE VIEW api.items AS
SELECT e.model_epoch, i.log_epoch, i.partition, i.version, i.media_id, i.source_id, i.status, i.readable, i.generation,
       CASE WHEN i.status = 'present' AND i.readable THEN greatest(i.generation, s.finalized_generation)
            ELSE i.generation END AS last_seen_generation,
       i.upstream_id, i.work_id, i.details_version, i.content_hash, i.media_kind, i.item_kind, i.title, i.duration_ms,
       i.year, i.number, i.part, i.artists, i.provider_ids, i.first_seen_at, i.changed_at, i.correlation_id
FROM model.media_items i
LEFT JOIN model.source_state s USING (source_id)
CROSS JOIN model.epoch e
WHERE NOT i.merged;
