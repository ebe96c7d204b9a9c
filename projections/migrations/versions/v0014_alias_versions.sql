-- As streams/runtime/tables.py has it.

CREATE TABLE core.alias_versions (
    source_id text NOT NULL PRIMARY KEY,
    version bigint NOT NULL
);
COMMENT ON COLUMN core.alias_versions.version IS 'raised whenever the library gives a name to another media';
