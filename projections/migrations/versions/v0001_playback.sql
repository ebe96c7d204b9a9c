-- Schema core: what the door and the effects own (streams/runtime/tables.py). It can't be rebuilt from the log.

CREATE TABLE core.sources (
    source_id text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source_id)
);
COMMENT ON COLUMN core.sources.kind IS 'the kind of server, or native';

CREATE TABLE core.tokens (
    token_hash bytea NOT NULL,
    token_id text NOT NULL UNIQUE,
    source_id text REFERENCES core.sources (source_id),
    scopes text[] NOT NULL,
    user_ref text,
    label text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz,
    PRIMARY KEY (token_hash)
);
COMMENT ON COLUMN core.tokens.token_hash IS 'SHA-256 of a random 256-bit token';
COMMENT ON COLUMN core.tokens.token_id IS 'public handle, for lists and revocation';
COMMENT ON COLUMN core.tokens.source_id IS 'null: every source';
COMMENT ON COLUMN core.tokens.scopes IS 'report read operate';
COMMENT ON COLUMN core.tokens.user_ref IS 'a read token may be bound to one person';

CREATE TABLE core.users (
    source_id text NOT NULL REFERENCES core.sources (source_id),
    upstream_user text NOT NULL,
    user_ref text NOT NULL,
    display_name text,
    published boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source_id, upstream_user)
);
CREATE INDEX users_by_ref ON core.users (user_ref);
COMMENT ON COLUMN core.users.upstream_user IS 'as the source names the person';
COMMENT ON COLUMN core.users.user_ref IS 'random; several upstream accounts may share one';
COMMENT ON COLUMN core.users.published IS 'acknowledged by Kafka';

CREATE TABLE core.media_aliases (
    source_id text NOT NULL,
    upstream_media text NOT NULL,
    media_id text NOT NULL,
    PRIMARY KEY (source_id, upstream_media)
);
CREATE INDEX media_aliases_by_media ON core.media_aliases (media_id);

-- Schema model: what projections write. All of it follows from the log; times are epoch milliseconds as in the
-- records, so no column depends on a database clock (those that do are named *_at and are timestamptz).

CREATE SCHEMA model;
CREATE SCHEMA api;

CREATE TABLE model.epoch (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    model_epoch bigint NOT NULL
);
COMMENT ON TABLE model.epoch IS 'raised when a rebuilt model goes live';
INSERT INTO model.epoch (model_epoch) VALUES (1);

CREATE TABLE model.offsets (
    projection text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    topic_id text,
    leader_epoch integer,
    log_epoch bigint NOT NULL DEFAULT 1,
    next_offset bigint NOT NULL DEFAULT 0,
    adopting boolean NOT NULL DEFAULT false,
    last_causes json NOT NULL DEFAULT '{}',
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (projection, topic, partition)
);
COMMENT ON COLUMN model.offsets.topic_id IS 'null until the first assignment, and after an operator adopted another log';
COMMENT ON COLUMN model.offsets.adopting IS 'an operator said: begin at the start of whatever log there is';
COMMENT ON COLUMN model.offsets.last_causes IS 'topic id of a cause → [offset, index] of the newest one applied; json, not jsonb: the order tells age';

CREATE TABLE model.breakers (
    consumer text PRIMARY KEY,
    opened_at timestamptz NOT NULL DEFAULT now(),
    reason text NOT NULL,
    through jsonb NOT NULL,
    resumed_at timestamptz
);
COMMENT ON COLUMN model.breakers.through IS 'partition → last offset of the flood; up to there a resumed reader counts nothing';

CREATE TABLE model.outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    cache_key text NOT NULL,
    model_epoch bigint NOT NULL,
    log_epoch bigint NOT NULL,
    partition integer NOT NULL,
    version bigint NOT NULL,
    correlation_id text NOT NULL,
    event_id text NOT NULL,
    source_id text NOT NULL,
    reason text NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE model.playback_progress (
    user_ref text NOT NULL,
    media_id text NOT NULL,
    media_kind text NOT NULL,
    epoch bigint NOT NULL,
    epoch_started_at bigint,
    phase text NOT NULL,
    position_ms bigint NOT NULL,
    resume_position_ms bigint,
    duration_ms bigint,
    played boolean NOT NULL,
    play_count bigint NOT NULL,
    last_played_at bigint,
    listened_ms bigint NOT NULL,
    event_time bigint NOT NULL,
    session_id text,
    device_id text,
    pending jsonb,
    conflict jsonb,
    source_event_id text,
    source_event_time bigint,
    source_device_id text,
    updated_ms bigint NOT NULL,
    correlation_id text NOT NULL,
    partition integer NOT NULL,
    log_epoch bigint NOT NULL,
    version bigint NOT NULL,
    resumable boolean NOT NULL GENERATED ALWAYS AS (resume_position_ms IS NOT NULL AND phase <> 'finished') STORED,
    PRIMARY KEY (user_ref, media_id)
) WITH (fillfactor = 80);
-- On a column that seldom changes, so that moving a position stays a heap-only update.
CREATE INDEX playback_progress_resumable ON model.playback_progress (user_ref) WHERE resumable;
COMMENT ON COLUMN model.playback_progress.source_event_id IS 'the report that last moved position, phase or epoch';
COMMENT ON COLUMN model.playback_progress.updated_ms IS 'log-append time of the newest report in this row';
COMMENT ON COLUMN model.playback_progress.version IS 'offset in playback.decided, within log_epoch';

CREATE TABLE model.user_versions (
    user_ref text PRIMARY KEY,
    partition integer NOT NULL,
    log_epoch bigint NOT NULL,
    version bigint NOT NULL
) WITH (fillfactor = 80);
COMMENT ON TABLE model.user_versions IS 'version of everything listed for a person';

CREATE TABLE model.progress_history (
    cause_topic_id text NOT NULL,
    cause_partition integer NOT NULL,
    cause_offset bigint NOT NULL,
    cause_index integer NOT NULL,
    user_ref text NOT NULL,
    media_id text NOT NULL,
    event_id text NOT NULL,
    source_id text NOT NULL,
    kind text NOT NULL,
    origin text NOT NULL,
    verdict text NOT NULL,
    reason text,
    notes text[] NOT NULL,
    session_id text,
    device_id text,
    report_position_ms bigint,
    event_time bigint NOT NULL,
    occurred_at bigint,
    logged_at bigint NOT NULL,
    position_moved boolean NOT NULL,
    play_counted boolean NOT NULL,
    epoch bigint NOT NULL,
    phase text NOT NULL,
    position_ms bigint NOT NULL,
    correlation_id text NOT NULL,
    minute_key bytea,
    partition integer NOT NULL,
    log_epoch bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (cause_topic_id, cause_partition, cause_offset, cause_index)
);
CREATE UNIQUE INDEX progress_history_minute ON model.progress_history (minute_key) WHERE minute_key IS NOT NULL;
CREATE INDEX progress_history_by_media ON model.progress_history (user_ref, media_id, log_epoch, version);
COMMENT ON COLUMN model.progress_history.minute_key IS 'null for turns; equal for progress of one run in one minute: the first is kept';

CREATE TABLE model.plays (
    cause_topic_id text NOT NULL,
    cause_partition integer NOT NULL,
    cause_offset bigint NOT NULL,
    cause_index integer NOT NULL,
    user_ref text NOT NULL,
    media_id text NOT NULL,
    epoch bigint,
    event_id text NOT NULL,
    source_id text NOT NULL,
    session_id text,
    device_id text,
    media_kind text NOT NULL,
    event_time bigint NOT NULL,
    logged_at bigint NOT NULL,
    correlation_id text NOT NULL,
    partition integer NOT NULL,
    log_epoch bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (cause_topic_id, cause_partition, cause_offset, cause_index)
);
CREATE INDEX plays_by_media ON model.plays (user_ref, media_id);

CREATE TABLE model.listening_time (
    cause_topic_id text NOT NULL,
    cause_partition integer NOT NULL,
    cause_offset bigint NOT NULL,
    cause_index integer NOT NULL,
    user_ref text NOT NULL,
    media_id text NOT NULL,
    source_id text NOT NULL,
    event_time bigint NOT NULL,
    added_ms bigint NOT NULL,
    partition integer NOT NULL,
    log_epoch bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (cause_topic_id, cause_partition, cause_offset, cause_index)
);
CREATE INDEX listening_time_by_user ON model.listening_time (user_ref, event_time);

CREATE TABLE model.processed_events (
    logged_day date NOT NULL,
    cause_topic_id text NOT NULL,
    cause_partition integer NOT NULL,
    cause_offset bigint NOT NULL,
    cause_index integer NOT NULL,
    event_key bytea NOT NULL,
    event_id text NOT NULL,
    source_id text NOT NULL,
    user_ref text NOT NULL,
    media_id text NOT NULL,
    kind text NOT NULL,
    origin text NOT NULL,
    verdict text NOT NULL,
    reason text,
    notes text[] NOT NULL,
    report_position_ms bigint,
    position_ms bigint NOT NULL,
    occurred_at bigint,
    received_at bigint NOT NULL,
    event_time bigint NOT NULL,
    logged_at bigint NOT NULL,
    correlation_id text NOT NULL,
    result_hash bytea NOT NULL,
    partition integer NOT NULL,
    log_epoch bigint NOT NULL,
    version bigint NOT NULL,
    projected_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (logged_day, cause_topic_id, cause_partition, cause_offset, cause_index)
) PARTITION BY RANGE (logged_day);
CREATE INDEX processed_events_by_event ON model.processed_events (event_id);
COMMENT ON COLUMN model.processed_events.logged_day IS 'UTC day of the log-append time of the report';
COMMENT ON COLUMN model.processed_events.event_key IS 'xxh128 of source, user and event id';
COMMENT ON COLUMN model.processed_events.result_hash IS 'xxh128 of the decision as Avro';
CREATE TABLE model.processed_events_other PARTITION OF model.processed_events DEFAULT;
