-- As streams/runtime/tables.py has them.

ALTER TABLE core.source_upstreams ADD COLUMN forward_since timestamptz;
COMMENT ON COLUMN core.source_upstreams.forward_since IS 'what is decided from then on is written to the server; null: nothing is';

CREATE TABLE core.forward_wanted (
    source_id text NOT NULL REFERENCES core.sources (source_id) ON DELETE CASCADE,
    user_ref text NOT NULL,
    media_id text NOT NULL,
    from_source text NOT NULL,
    from_media text NOT NULL,
    partition integer NOT NULL,
    log_epoch integer NOT NULL,
    version bigint NOT NULL,
    done_version bigint NOT NULL DEFAULT -1,
    place text NOT NULL,
    position_ms bigint NOT NULL,
    duration_ms bigint,
    event_time bigint NOT NULL,
    logged_at bigint NOT NULL,
    sent bigint[] NOT NULL DEFAULT '{}',
    refusals integer NOT NULL DEFAULT 0,
    outcome text,
    done_at timestamptz,
    PRIMARY KEY (source_id, user_ref, media_id)
);
CREATE INDEX forward_wanted_by_person ON core.forward_wanted (user_ref);
COMMENT ON TABLE core.forward_wanted IS 'how a person''s playback of a media should stand on a server';
COMMENT ON COLUMN core.forward_wanted.media_id IS 'of the server it is written to';
COMMENT ON COLUMN core.forward_wanted.from_media IS 'what was decided about';
COMMENT ON COLUMN core.forward_wanted.version IS 'offset of the decision in playback.decided, within log_epoch';
COMMENT ON COLUMN core.forward_wanted.place IS 'at finished unplayed; none: nothing is wanted, it came from there';
COMMENT ON COLUMN core.forward_wanted.event_time IS 'when it was so, epoch ms';
COMMENT ON COLUMN core.forward_wanted.logged_at IS 'log-append time of the report, epoch ms: an older log changes nothing';
COMMENT ON COLUMN core.forward_wanted.sent IS 'what was written last, newest first: positions in ms, -1 played, -2 unplayed';
COMMENT ON COLUMN core.forward_wanted.refusals IS 'of this value in a row';
COMMENT ON COLUMN core.forward_wanted.outcome IS 'written same kept nothing';

CREATE TABLE core.forward_plays (
    source_id text NOT NULL REFERENCES core.sources (source_id) ON DELETE CASCADE,
    user_ref text NOT NULL,
    media_id text NOT NULL,
    log_epoch integer NOT NULL,
    version bigint NOT NULL,
    played_at bigint NOT NULL,
    tried boolean NOT NULL DEFAULT false,
    PRIMARY KEY (source_id, user_ref, media_id, log_epoch, version)
);
CREATE INDEX forward_plays_by_person ON core.forward_plays (user_ref);
COMMENT ON TABLE core.forward_plays IS 'plays a server has yet to be told of; deleted when it has been';
COMMENT ON COLUMN core.forward_plays.tried IS 'it may be counted there already: ask first';

-- What links media of several sources.
CREATE INDEX media_items_by_provider ON model.media_items USING gin (provider_ids jsonb_path_ops) WHERE NOT merged;
COMMENT ON COLUMN core.tasks.kind IS 'scan metadata reconcile forward cache';
