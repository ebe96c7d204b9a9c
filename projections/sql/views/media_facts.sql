-- What the door may add to a report, and which ids are ours: by media_id, also one that ended in another.
CREATE VIEW api.media_facts AS
SELECT media_id, media_kind, duration_ms, source_id FROM model.media_items WHERE NOT merged
UNION ALL
SELECT m.media_id, i.media_kind, i.duration_ms, i.source_id
FROM model.media_merges m JOIN model.media_items i ON i.media_id = m.survivor AND NOT i.merged
WHERE NOT EXISTS (SELECT FROM model.media_items own WHERE own.media_id = m.media_id AND NOT own.merged);
