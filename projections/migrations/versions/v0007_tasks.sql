-- As streams/runtime/tables.py has them.

CREATE SEQUENCE core.lease_numbers;

CREATE TABLE core.tasks (
    kind text NOT NULL,
    key text NOT NULL,
    source_id text NOT NULL,
    log_epoch integer NOT NULL,
    wanted_version bigint NOT NULL,
    done_version bigint NOT NULL DEFAULT -1,
    cancelled_version bigint NOT NULL DEFAULT -1,
    running_version bigint,
    payload jsonb NOT NULL DEFAULT '{}',
    correlation_id text NOT NULL,
    requested_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    lease_token text,
    lease_until timestamptz,
    progress jsonb,
    last_error text,
    last_error_class text,
    finished_at timestamptz,
    dead_at timestamptz,
    PRIMARY KEY (kind, key)
);
CREATE INDEX tasks_waiting ON core.tasks (kind, next_attempt_at) WHERE wanted_version > done_version;
COMMENT ON COLUMN core.tasks.kind IS 'scan metadata reconcile';
COMMENT ON COLUMN core.tasks.key IS 'what it is of: a source, or one item of it';
COMMENT ON COLUMN core.tasks.log_epoch IS 'of the versions below';
COMMENT ON COLUMN core.tasks.wanted_version IS 'offset of the newest request';
COMMENT ON COLUMN core.tasks.cancelled_version IS 'and all before it';
COMMENT ON COLUMN core.tasks.running_version IS 'begun last, for a scan its generation';
COMMENT ON COLUMN core.tasks.correlation_id IS 'of the newest request';
COMMENT ON COLUMN core.tasks.requested_at IS 'since when something is wanted';
COMMENT ON COLUMN core.tasks.attempts IS 'since it was done last';
COMMENT ON COLUMN core.tasks.lease_token IS 'a number that only grows, and a random part';
COMMENT ON COLUMN core.tasks.lease_until IS 'by this server''s clock';
COMMENT ON COLUMN core.tasks.progress IS 'how far the running attempt is; for people';
COMMENT ON COLUMN core.tasks.dead_at IS 'given up, until it is requested again';

CREATE TABLE core.schedules (
    schedule_id text NOT NULL PRIMARY KEY,
    source_id text NOT NULL REFERENCES core.sources (source_id) ON DELETE CASCADE,
    requested_by text NOT NULL,
    cron text,
    jitter_s integer NOT NULL DEFAULT 0,
    delay_s integer,
    next_at timestamptz,
    lease_token text,
    lease_until timestamptz,
    last_at timestamptz
);
CREATE INDEX schedules_by_source ON core.schedules (source_id);
COMMENT ON COLUMN core.schedules.requested_by IS 'schedule or follow_up';
COMMENT ON COLUMN core.schedules.cron IS 'in UTC; null: once';
COMMENT ON COLUMN core.schedules.jitter_s IS 'up to so much later';
COMMENT ON COLUMN core.schedules.delay_s IS 'of a follow-up: how long after the scan before it';
COMMENT ON COLUMN core.schedules.next_at IS 'null: not due';

CREATE TABLE core.source_trees (
    source_id text NOT NULL PRIMARY KEY REFERENCES core.sources (source_id) ON DELETE CASCADE,
    path bytea NOT NULL,
    watch boolean NOT NULL DEFAULT true
);
COMMENT ON COLUMN core.source_trees.path IS 'of the root, absolute, as the file system has it';
