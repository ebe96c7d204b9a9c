-- What a media_id means: the item of this id, or the one it ended in.
CREATE VIEW api.media AS
SELECT n.asked, e.model_epoch, i.log_epoch, i.partition, i.version, i.media_id, i.source_id, i.status, i.readable,
       i.generation,
       CASE WHEN i.status = 'present' AND i.readable THEN greatest(i.generation, s.finalized_generation)
            ELSE i.generation END AS last_seen_generation,
       i.upstream_id, i.work_id, i.details_version, i.content_hash, i.media_kind, i.item_kind, i.title, i.duration_ms,
       i.year, i.number, i.part, i.artists, i.provider_ids, i.first_seen_at, i.changed_at, i.correlation_id,
       ARRAY(SELECT a.upstream_id FROM model.upstream_aliases a WHERE a.media_id = i.media_id ORDER BY 1) AS aliases,
       ARRAY(SELECT m.media_id FROM model.media_merges m WHERE m.survivor = i.media_id ORDER BY 1) AS merged_from,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('collection', c.collection_id, 'kind', c.kind, 'name', c.name)
                                  ORDER BY c.kind, c.name, c.collection_id), '[]')
        FROM model.collection_items m JOIN model.collections c USING (collection_id) WHERE m.media_id = i.media_id)
           AS collections,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('path', encode(l.path, 'hex'), 'size', l.size,
                                                     'mtime_ns', l.mtime_ns) ORDER BY l.ordinal), '[]')
        FROM model.media_locators l WHERE l.media_id = i.media_id) AS locators
FROM (
    SELECT media_id AS asked, media_id FROM model.media_items WHERE NOT merged
    UNION ALL
    SELECT m.media_id, m.survivor FROM model.media_merges m
    WHERE NOT EXISTS (SELECT FROM model.media_items own WHERE own.media_id = m.media_id AND NOT own.merged)
) n
JOIN model.media_items i ON i.media_id = n.media_id AND NOT i.merged
LEFT JOIN model.source_state s USING (source_id)
CROSS JOIN model.epoch e;
