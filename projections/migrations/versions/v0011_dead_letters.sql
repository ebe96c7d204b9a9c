-- Dead letters as the log tells them (model), and what operators made of them (core: it can't be rebuilt).

CREATE TABLE model.dead_letters (
    letter_id text NOT NULL,
    topic text NOT NULL,
    topic_id text NOT NULL,
    topic_partition integer NOT NULL,
    topic_offset bigint NOT NULL,
    consumer text NOT NULL,
    cause_class text NOT NULL,
    error_class text NOT NULL,
    error_text text NOT NULL,
    source_id text NOT NULL,
    correlation_id text NOT NULL,
    schema_id bigint,
    key_bytes integer,
    value_bytes integer,
    attempts integer NOT NULL,
    failed_at bigint NOT NULL,
    logged_at bigint NOT NULL,
    number bigint NOT NULL,
    partition integer NOT NULL,
    log_epoch bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (letter_id)
);
CREATE INDEX dead_letters_by_time ON model.dead_letters (logged_at, letter_id);
CREATE INDEX dead_letters_by_origin ON model.dead_letters (topic, topic_partition, consumer, number);
COMMENT ON COLUMN model.dead_letters.topic_offset IS 'with topic, its id and partition: where the record nobody could process lies';
COMMENT ON COLUMN model.dead_letters.logged_at IS 'log-append time of the letter';
COMMENT ON COLUMN model.dead_letters.number IS 'from 1 within its origin; the newest ones are kept';
COMMENT ON COLUMN model.dead_letters.version IS 'offset in dead.letters, where the bytes are';

CREATE TABLE model.dead_letter_origins (
    topic text NOT NULL,
    topic_partition integer NOT NULL,
    consumer text NOT NULL,
    letters bigint NOT NULL,
    first_at bigint NOT NULL,
    last_at bigint NOT NULL,
    partition integer NOT NULL,
    log_epoch bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (topic, topic_partition, consumer)
);
COMMENT ON TABLE model.dead_letter_origins IS 'how many letters there ever were of one partition and who gave up, those that are kept no more included';

-- As streams/runtime/tables.py has them.

CREATE TABLE core.dead_letter_marks (
    letter_id text NOT NULL PRIMARY KEY,
    status text NOT NULL,
    actor text NOT NULL,
    reason text NOT NULL DEFAULT '',
    marked_at timestamptz NOT NULL DEFAULT now(),
    sent_topic text,
    sent_partition integer,
    sent_from bigint,
    sent_offset bigint,
    failures integer NOT NULL DEFAULT 0,
    last_error text
);
COMMENT ON COLUMN core.dead_letter_marks.status IS 'open parked redriving redriven discarded; no row: open';
COMMENT ON COLUMN core.dead_letter_marks.sent_from IS 'end of that partition before it was sent: what was sent lies behind it';
COMMENT ON COLUMN core.dead_letter_marks.failures IS 'redrives after which it could not be processed either';

CREATE TABLE core.dlq_audit (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL,
    action text NOT NULL,
    reason text NOT NULL DEFAULT '',
    chosen jsonb NOT NULL,
    letters text[] NOT NULL
);
COMMENT ON COLUMN core.dlq_audit.chosen IS 'the filters the letters were chosen by';
