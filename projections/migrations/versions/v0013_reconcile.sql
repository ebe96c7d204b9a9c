-- What reconcile found, run by run: counts by cause, nothing of anybody.

CREATE TABLE core.reconcile_runs (
    run_id text PRIMARY KEY,
    scopes text[] NOT NULL,
    source_id text,
    begun_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL DEFAULT now(),
    repaired boolean NOT NULL,
    drift jsonb NOT NULL
);
CREATE INDEX reconcile_runs_by_end ON core.reconcile_runs (ended_at);
COMMENT ON COLUMN core.reconcile_runs.source_id IS 'null: every source';
COMMENT ON COLUMN core.reconcile_runs.repaired IS 'what mends it was put into the log';
COMMENT ON COLUMN core.reconcile_runs.drift IS 'cause → how many';

COMMENT ON COLUMN core.schedules.requested_by IS 'schedule, follow_up or reconcile';
