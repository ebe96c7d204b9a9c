-- As streams/runtime/tables.py has them.

CREATE TABLE core.source_upstreams (
    source_id text NOT NULL PRIMARY KEY REFERENCES core.sources (source_id) ON DELETE CASCADE,
    url text NOT NULL,
    interval_s integer NOT NULL,
    verify_tls boolean NOT NULL DEFAULT true
);
COMMENT ON COLUMN core.source_upstreams.url IS 'the one origin this source''s server is asked at';

CREATE TABLE core.source_accounts (
    source_id text NOT NULL REFERENCES core.sources (source_id) ON DELETE CASCADE,
    account text NOT NULL,
    login text NOT NULL,
    secret text,
    secret_file text,
    PRIMARY KEY (source_id, account),
    CONSTRAINT source_accounts_one_secret CHECK ((secret IS NULL) <> (secret_file IS NULL))
);
COMMENT ON COLUMN core.source_accounts.account IS 'empty: a key that sees everybody';
COMMENT ON COLUMN core.source_accounts.login IS 'token, password or api_key';
COMMENT ON COLUMN core.source_accounts.secret IS 'in clear, for the server wants it so';
COMMENT ON COLUMN core.source_accounts.secret_file IS 'or the file that holds it';

CREATE TABLE core.poll_state (
    source_id text NOT NULL REFERENCES core.sources (source_id) ON DELETE CASCADE,
    upstream_user text NOT NULL,
    facet text NOT NULL,
    item text NOT NULL,
    seen jsonb NOT NULL,
    PRIMARY KEY (source_id, upstream_user, facet, item)
);
COMMENT ON COLUMN core.poll_state.facet IS 'which of the server''s lists it stood in';
COMMENT ON COLUMN core.poll_state.seen IS 'what was told last, and is in the log';

CREATE TABLE core.poll_health (
    source_id text NOT NULL PRIMARY KEY REFERENCES core.sources (source_id) ON DELETE CASCADE,
    attempted_at timestamptz NOT NULL,
    succeeded_at timestamptz,
    swept_at timestamptz,
    cause text,
    failures integer NOT NULL,
    next_at timestamptz
);
COMMENT ON COLUMN core.poll_health.swept_at IS 'when everything was read last';
COMMENT ON COLUMN core.poll_health.cause IS 'class of the last error; null: none';
COMMENT ON COLUMN core.poll_health.failures IS 'in a row';

CREATE TABLE core.forward_sent (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source_id text NOT NULL REFERENCES core.sources (source_id) ON DELETE CASCADE,
    user_ref text NOT NULL,
    media_id text NOT NULL,
    value_hash bigint NOT NULL,
    returned text[] NOT NULL DEFAULT '{}',
    expires_at timestamptz NOT NULL
);
CREATE INDEX forward_sent_by_value ON core.forward_sent (source_id, user_ref, media_id, value_hash);
CREATE INDEX forward_sent_by_expiry ON core.forward_sent (expires_at);
COMMENT ON COLUMN core.forward_sent.value_hash IS 'of what was written to the server';
COMMENT ON COLUMN core.forward_sent.returned IS 'ways it came back: hook, poll';
