-- What is in a collection.
CREATE VIEW api.collection_items AS
SELECT collection_id, media_id FROM model.collection_items;
