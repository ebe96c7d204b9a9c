-- Who was forgotten. That there was such a person is all that is kept: no name, and nothing that leads to one.

CREATE TABLE model.forgotten_users (
    user_ref text PRIMARY KEY,
    partition integer NOT NULL,
    log_epoch bigint NOT NULL,
    version bigint NOT NULL
);
COMMENT ON TABLE model.forgotten_users IS 'whatever the log says of these makes no row';

-- As streams/runtime/tables.py has them. Two tables that share nothing but a time: who is in one is not told which
-- of the other.
CREATE TABLE core.forgotten_people (
    user_ref text PRIMARY KEY,
    forgotten_at timestamptz NOT NULL
);
COMMENT ON TABLE core.forgotten_people IS 'to say it again to a log that lost it';

CREATE TABLE core.forgotten_accounts (
    account_hash text PRIMARY KEY,
    forgotten_at timestamptz NOT NULL
);
COMMENT ON COLUMN core.forgotten_accounts.account_hash IS 'keyed hash of source and upstream user';
COMMENT ON COLUMN core.forgotten_accounts.forgotten_at IS 'what it played until then is refused';

CREATE TABLE core.backups (
    made_at timestamptz PRIMARY KEY
);
COMMENT ON TABLE core.backups IS 'when what is in this schema was written to a file';
