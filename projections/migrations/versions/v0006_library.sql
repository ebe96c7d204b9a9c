-- Read models of the library. All of it follows from library.changed; times are epoch milliseconds as in the records.
-- A version is the offset there, within log_epoch, of the newest record that changed anything about the row.

CREATE TABLE model.media_items (
    media_id text NOT NULL,
    source_id text NOT NULL,
    status text NOT NULL,
    merged boolean NOT NULL DEFAULT false,
    readable boolean NOT NULL,
    generation bigint,
    upstream_id text,
    work_id text,
    details_version bigint,
    content_hash text,
    media_kind text,
    item_kind text,
    title text,
    duration_ms bigint,
    year integer,
    number integer,
    part integer,
    artists text[] NOT NULL,
    provider_ids jsonb NOT NULL,
    first_seen_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    correlation_id text NOT NULL,
    partition integer NOT NULL,
    log_epoch bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (media_id)
);
CREATE INDEX media_items_by_source ON model.media_items (source_id, media_id);
COMMENT ON COLUMN model.media_items.merged IS 'ended in another media: kept so that no older record brings it back';
COMMENT ON COLUMN model.media_items.generation IS 'the newest scan that had seen it when it last changed';
COMMENT ON COLUMN model.media_items.details_version IS 'upstream''s time of the last change, or the file''s';
COMMENT ON COLUMN model.media_items.changed_at IS 'log-append time of what last changed it';

CREATE TABLE model.media_locators (
    media_id text NOT NULL,
    ordinal integer NOT NULL,
    source_id text NOT NULL,
    folder bytea NOT NULL,
    path bytea NOT NULL,
    size bigint,
    mtime_ns bigint,
    device bigint,
    inode bigint,
    PRIMARY KEY (media_id, ordinal)
);
-- A path may be longer than what an index entry holds.
CREATE INDEX media_locators_by_folder ON model.media_locators (source_id, sha256(folder));
COMMENT ON COLUMN model.media_locators.folder IS 'the path up to its last slash; empty: the root';

CREATE TABLE model.upstream_aliases (
    source_id text NOT NULL,
    upstream_id text NOT NULL,
    media_id text NOT NULL,
    partition integer NOT NULL,
    log_epoch bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (source_id, upstream_id)
);
CREATE INDEX upstream_aliases_by_media ON model.upstream_aliases (media_id);

CREATE INDEX media_merges_by_survivor ON model.media_merges (survivor);

CREATE TABLE model.scan_sessions (
    source_id text NOT NULL,
    generation bigint NOT NULL,
    requested_by text NOT NULL,
    status text NOT NULL,
    reason text,
    observations bigint NOT NULL,
    seen bigint NOT NULL,
    added bigint NOT NULL,
    changed bigint NOT NULL,
    moved bigint NOT NULL,
    missing bigint NOT NULL,
    present_before bigint NOT NULL,
    unreadable bigint NOT NULL,
    skipped jsonb NOT NULL,
    started_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    held_at bigint,
    ended_at bigint,
    correlation_id text NOT NULL,
    partition integer NOT NULL,
    log_epoch bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (source_id, generation)
);
COMMENT ON COLUMN model.scan_sessions.generation IS 'offset of its request in library.commands';
COMMENT ON COLUMN model.scan_sessions.skipped IS 'reason → how often';
COMMENT ON COLUMN model.scan_sessions.held_at IS 'when it was held first';
COMMENT ON COLUMN model.scan_sessions.ended_at IS 'null while it runs or is held';

CREATE TABLE model.source_state (
    source_id text NOT NULL,
    held boolean NOT NULL DEFAULT false,
    held_reason text,
    held_changed_at bigint,
    held_removals bigint NOT NULL DEFAULT 0,
    finalized_generation bigint,
    present bigint NOT NULL DEFAULT 0,
    provisional bigint NOT NULL DEFAULT 0,
    missing bigint NOT NULL DEFAULT 0,
    archived bigint NOT NULL DEFAULT 0,
    deleted bigint NOT NULL DEFAULT 0,
    items_log_epoch bigint,
    items_version bigint,
    partition integer NOT NULL,
    log_epoch bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (source_id)
) WITH (fillfactor = 80);
COMMENT ON COLUMN model.source_state.present IS 'items of this status now';
COMMENT ON COLUMN model.source_state.finalized_generation IS 'of the newest scan that was finalized';
COMMENT ON COLUMN model.source_state.items_version IS 'of the newest record about an item; version: about anything';

CREATE TABLE model.collections (
    collection_id text NOT NULL,
    source_id text NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    name text NOT NULL,
    present bigint NOT NULL,
    provisional bigint NOT NULL,
    missing bigint NOT NULL,
    archived bigint NOT NULL,
    deleted bigint NOT NULL,
    partition integer NOT NULL,
    log_epoch bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (collection_id)
) WITH (fillfactor = 80);
CREATE INDEX collections_by_source ON model.collections (source_id, kind, collection_id);
COMMENT ON COLUMN model.collections.collection_id IS 'xxh128 of source, kind and key; of a folder its bytes';
COMMENT ON COLUMN model.collections.name IS 'as the newest item that is of it has it';
COMMENT ON COLUMN model.collections.version IS 'of the newest record that changed what is in it; empty ones are deleted';

CREATE TABLE model.collection_items (
    collection_id text NOT NULL,
    media_id text NOT NULL,
    PRIMARY KEY (collection_id, media_id)
);
CREATE INDEX collection_items_by_media ON model.collection_items (media_id);
