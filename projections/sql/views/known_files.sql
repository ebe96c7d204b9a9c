-- Files as a scan knows them from before. Ask with sha256(folder) = sha256(…) AND folder = …: only that has an index.
CREATE VIEW api.known_files AS
SELECT l.source_id, l.media_id, l.folder, l.path, l.size, l.mtime_ns, l.device, l.inode
FROM model.media_locators l JOIN model.media_items i USING (media_id)
WHERE NOT i.merged AND i.status IN ('present', 'provisional', 'missing');
