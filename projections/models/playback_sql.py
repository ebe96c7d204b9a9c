"""The SQL of the playback read models: a batch is copied into one temporary table, then split into rows.

COPY and insert-from-select is the fastest way into PostgreSQL from Python, and replaying an old batch costs
less than writing it: all its conflicts end in a false WHERE. Inserts go in key order, so that two owners of a
partition cannot lock each other out.
"""
# ruff: noqa: S608 - put together from constants of this module

from __future__ import annotations

STAGE_COLUMNS: dict[str, str] = {
    # position of the report
    "cause_topic_id": "text NOT NULL",
    "cause_partition": "integer NOT NULL",
    "cause_offset": "bigint NOT NULL",
    "cause_index": "integer NOT NULL",
    # version: position of the decision
    "partition": "integer NOT NULL",
    "log_epoch": "bigint NOT NULL",
    "version": "bigint NOT NULL",
    # the report
    "event_id": "text NOT NULL",
    "correlation_id": "text NOT NULL",
    "source_id": "text NOT NULL",
    "user_ref": "text NOT NULL",
    "media_id": "text NOT NULL",
    "kind": "text NOT NULL",
    "origin": "text NOT NULL",
    "occurred_at": "bigint",
    "received_at": "bigint NOT NULL",
    "logged_at": "bigint NOT NULL",
    "logged_day": "date NOT NULL",
    "report_session_id": "text",
    "report_device_id": "text",
    "report_position_ms": "bigint",
    "report_event_time": "bigint NOT NULL",
    # the decision
    "verdict": "text NOT NULL",
    "reason": "text",
    "notes": "text[] NOT NULL",
    "position_moved": "boolean NOT NULL",
    "play_counted": "boolean NOT NULL",
    "play_epoch": "bigint",
    "listened_added_ms": "bigint NOT NULL",
    "event_key": "bytea NOT NULL",
    "result_hash": "bytea NOT NULL",
    "in_history": "boolean NOT NULL",
    "minute_key": "bytea",
    # the state after it
    "media_kind": "text NOT NULL",
    "epoch": "bigint NOT NULL",
    "epoch_started_at": "bigint",
    "phase": "text NOT NULL",
    "position_ms": "bigint NOT NULL",
    "resume_position_ms": "bigint",
    "duration_ms": "bigint",
    "played": "boolean NOT NULL",
    "play_count": "bigint NOT NULL",
    "last_played_at": "bigint",
    "listened_ms": "bigint NOT NULL",
    "event_time": "bigint NOT NULL",
    "session_id": "text",
    "device_id": "text",
    "pending": "jsonb",
    "conflict": "jsonb",
    "joined": "text[] NOT NULL",
    # of its key in this batch: the newest record, and the last one that moved something
    "newest": "boolean NOT NULL",
    "moved_event_id": "text",
    "moved_event_time": "bigint",
    "moved_device_id": "text",
}

CREATE_STAGE = (
    "CREATE TEMPORARY TABLE playback_stage ("
    + ", ".join(f"{name} {kind}" for name, kind in STAGE_COLUMNS.items())
    + ") ON COMMIT DELETE ROWS"
)
COPY_STAGE = f"COPY pg_temp.playback_stage ({', '.join(STAGE_COLUMNS)}) FROM STDIN"

_POSITION = "cause_topic_id, cause_partition, cause_offset, cause_index"
_VERSION = "partition, log_epoch, version"

INSERT_PROCESSED = f"""
INSERT INTO model.processed_events (
    logged_day, {_POSITION}, event_key, event_id, source_id, user_ref, media_id, kind, origin, verdict, reason, notes,
    report_position_ms, position_ms, occurred_at, received_at, event_time, logged_at, correlation_id, result_hash,
    {_VERSION})
SELECT logged_day, {_POSITION}, event_key, event_id, source_id, user_ref, media_id, kind, origin, verdict, reason,
    notes, report_position_ms, position_ms, occurred_at, received_at, report_event_time, logged_at, correlation_id,
    result_hash, {_VERSION}
FROM pg_temp.playback_stage ORDER BY partition, version
ON CONFLICT DO NOTHING"""

# For a rebuild: days that have expired are left out; and listening time straight into its table.
INSERT_PROCESSED_SINCE = INSERT_PROCESSED.replace(
    "FROM pg_temp.playback_stage", "FROM pg_temp.playback_stage WHERE logged_at >= {since_ms}"
)
COPY_LISTENING = f"""
COPY model.listening_time ({_POSITION}, user_ref, media_id, source_id, event_time, added_ms, {_VERSION}) FROM STDIN"""

INSERT_HISTORY = f"""
INSERT INTO model.progress_history (
    {_POSITION}, user_ref, media_id, event_id, source_id, kind, origin, verdict, reason, notes, session_id, device_id,
    report_position_ms, event_time, occurred_at, logged_at, position_moved, play_counted, epoch, phase, position_ms,
    correlation_id, minute_key, {_VERSION})
SELECT {_POSITION}, user_ref, media_id, event_id, source_id, kind, origin, verdict, reason, notes, report_session_id,
    report_device_id, report_position_ms, report_event_time, occurred_at, logged_at, position_moved, play_counted,
    epoch, phase, position_ms, correlation_id, minute_key, {_VERSION}
FROM pg_temp.playback_stage WHERE in_history ORDER BY partition, version
ON CONFLICT DO NOTHING"""

INSERT_PLAYS = f"""
INSERT INTO model.plays (
    {_POSITION}, user_ref, media_id, epoch, event_id, source_id, session_id, device_id, media_kind, event_time,
    logged_at, correlation_id, {_VERSION})
SELECT {_POSITION}, user_ref, media_id, play_epoch, event_id, source_id, report_session_id, report_device_id,
    media_kind, report_event_time, logged_at, correlation_id, {_VERSION}
FROM pg_temp.playback_stage WHERE play_counted ORDER BY partition, version
ON CONFLICT DO NOTHING"""

INSERT_LISTENING = f"""
INSERT INTO model.listening_time (
    {_POSITION}, user_ref, media_id, source_id, event_time, added_ms, {_VERSION})
SELECT {_POSITION}, user_ref, media_id, source_id, report_event_time, listened_added_ms, {_VERSION}
FROM pg_temp.playback_stage WHERE listened_added_ms > 0 ORDER BY partition, version
ON CONFLICT DO NOTHING"""

_STATE = (
    "media_kind, epoch, epoch_started_at, phase, position_ms, resume_position_ms, duration_ms, played, play_count, "
    "last_played_at, listened_ms, event_time, session_id, device_id, pending, conflict, joined"
)
_REPLACED = ", ".join(
    f"{name} = excluded.{name}" for name in (*_STATE.split(", "), "updated_ms", "correlation_id", *_VERSION.split(", "))
)

# The keys written are returned; the others had a newer row already.
UPSERT_PROGRESS = f"""
WITH applied AS (
    INSERT INTO model.playback_progress AS row (
        user_ref, media_id, {_STATE}, source_event_id, source_event_time, source_device_id, updated_ms,
        correlation_id, {_VERSION})
    SELECT user_ref, media_id, {_STATE}, moved_event_id, moved_event_time, moved_device_id, logged_at,
        correlation_id, {_VERSION}
    FROM pg_temp.playback_stage WHERE newest ORDER BY user_ref, media_id
    ON CONFLICT (user_ref, media_id) DO UPDATE SET {_REPLACED},
        source_event_id = coalesce(excluded.source_event_id, row.source_event_id),
        source_event_time = CASE WHEN excluded.source_event_id IS NULL
            THEN row.source_event_time ELSE excluded.source_event_time END,
        source_device_id = CASE WHEN excluded.source_event_id IS NULL
            THEN row.source_device_id ELSE excluded.source_device_id END
    WHERE (excluded.log_epoch, excluded.version) > (row.log_epoch, row.version)
    RETURNING user_ref, media_id, partition, log_epoch, version
), lists AS (
    INSERT INTO model.user_versions AS row (user_ref, {_VERSION})
    SELECT DISTINCT ON (user_ref) user_ref, {_VERSION}
    FROM applied ORDER BY user_ref, log_epoch DESC, version DESC
    ON CONFLICT (user_ref) DO UPDATE SET
        partition = excluded.partition, log_epoch = excluded.log_epoch, version = excluded.version
    WHERE (excluded.log_epoch, excluded.version) > (row.log_epoch, row.version)
)
SELECT user_ref, media_id FROM applied"""

# Of media in the stage that have ended: a decision made before the agent knew of it shows in the survivor.
SURVIVORS = """
SELECT DISTINCT s.media_id, m.survivor FROM pg_temp.playback_stage s JOIN model.media_merges m USING (media_id)
WHERE s.newest"""
# A record whose turn was missed: it is the first of its minute, and moved the row unless what the row names is newer.
DELETE_LATER_OF_MINUTE = "DELETE FROM model.progress_history WHERE minute_key = %s AND (log_epoch, version) > (%s, %s)"
NAME_LATE_MOVER = """
UPDATE model.playback_progress AS row
SET source_event_id = %(event_id)s, source_event_time = %(event_time)s, source_device_id = %(device_id)s
WHERE user_ref = %(user)s AND media_id = %(media)s AND (log_epoch, version) > (%(log_epoch)s, %(version)s)
  AND (source_event_id IS NULL OR EXISTS (
      SELECT FROM model.processed_events e
      WHERE e.event_id = row.source_event_id AND e.user_ref = row.user_ref AND e.media_id = row.media_id
        AND e.verdict <> 'duplicate' AND (e.log_epoch, e.version) < (%(log_epoch)s, %(version)s)
  ))"""

# Forgetting: a person's rows go, and that there was such a person stays.
SELECT_ALL_FORGOTTEN = "SELECT user_ref FROM model.forgotten_users"
SELECT_FORGOTTEN = "SELECT user_ref FROM model.forgotten_users WHERE user_ref = ANY(%s)"
INSERT_FORGOTTEN = f"""
INSERT INTO model.forgotten_users (user_ref, {_VERSION}) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"""
FORGET_IN_COPIES = "SELECT core.forget_in_copies(ARRAY(SELECT user_ref FROM model.forgotten_users))"
# Each returns the media it was about: their keys are stale.
DELETE_PERSON = (
    "WITH gone AS (DELETE FROM model.playback_progress WHERE user_ref = %s RETURNING joined || media_id AS media)"
    " SELECT unnest(media) FROM gone",
    *(
        f"WITH gone AS (DELETE FROM model.{table} WHERE user_ref = %s RETURNING media_id)"
        " SELECT DISTINCT media_id FROM gone"
        for table in ("progress_history", "plays", "listening_time", "processed_events")
    ),
    "WITH gone AS (DELETE FROM model.user_versions WHERE user_ref = %s) SELECT NULL::text WHERE false",
)
