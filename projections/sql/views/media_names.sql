-- What its source calls a media now: the id it was last listed under.
CREATE VIEW api.media_names AS
SELECT media_id, source_id, upstream_id FROM model.media_items WHERE upstream_id IS NOT NULL AND NOT merged;
