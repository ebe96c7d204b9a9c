"""The SQL of forwarding: where a decision is to be told, and how it should stand there."""
# ruff: noqa: S608 - put together from constants of this module

from __future__ import annotations

from typing import Final

GAP_S: Final = 10
"""A server is told of plain progress of one media so often at most."""
AGAIN_AFTER_DEATH_S: Final = 600
"""What was given up is tried again by what is played on, but not with every word of it."""

ANYWHERE = "SELECT EXISTS (SELECT FROM core.source_upstreams WHERE forward_since IS NOT NULL)"

# A server that lists nothing has no media of its own: null. Else it is an item and those of other sources that one
# catalogue calls by the same id and none by another; some catalogues number films apart from series. Of an item that
# ended, its survivor's links hold.
TARGETS = """
SELECT DISTINCT m.n, s.source_id, t.media_id
FROM jsonb_to_recordset(%(moved)s::jsonb)
    AS m (n integer, user_ref text, media_id text, source_id text, of_server boolean, logged_at bigint)
JOIN model.media_items f ON NOT f.merged AND f.media_id = coalesce(
    (SELECT g.survivor FROM model.media_merges g WHERE g.media_id = m.media_id), m.media_id)
JOIN core.users u ON u.user_ref = m.user_ref AND NOT (m.of_server AND u.source_id = m.source_id)
JOIN core.source_upstreams s ON s.source_id = u.source_id
    AND extract(epoch FROM s.forward_since) * 1000 <= m.logged_at
JOIN core.sources k ON k.source_id = s.source_id
CROSS JOIN LATERAL (
    SELECT f.media_id WHERE f.source_id = s.source_id
    UNION ALL
    SELECT NULL WHERE k.kind = 'listenbrainz' AND f.media_kind = 'music'
    UNION ALL
    SELECT t.media_id
    FROM jsonb_array_elements(f.provider_ids) AS e
    JOIN model.media_items t ON t.provider_ids @> jsonb_build_array(e) AND NOT t.merged
    WHERE t.source_id = s.source_id AND t.source_id <> f.source_id AND t.status IN ('present', 'provisional')
      AND t.media_kind = f.media_kind AND (e ->> 0 NOT IN ('tmdb', 'tvdb') OR t.item_kind = f.item_kind)
      AND e ->> 0 IN ('imdb', 'tmdb', 'tvdb', 'mbid', 'isbn', 'asin')
      AND NOT EXISTS (
          SELECT FROM jsonb_array_elements(f.provider_ids) AS a
          WHERE EXISTS (SELECT FROM jsonb_array_elements(t.provider_ids) AS b WHERE b ->> 0 = a ->> 0)
            AND NOT EXISTS (
                SELECT FROM jsonb_array_elements(f.provider_ids) AS c
                WHERE c ->> 0 = a ->> 0 AND t.provider_ids @> jsonb_build_array(c)))
) AS t
"""

_NEWER = "(excluded.log_epoch, excluded.version) > (w.log_epoch, w.version) AND excluded.logged_at >= w.logged_at"
WANT = f"""
INSERT INTO core.forward_wanted AS w (source_id, user_ref, media_id, from_source, from_media, partition, log_epoch,
    version, place, position_ms, duration_ms, event_time, logged_at)
SELECT r.source_id, r.user_ref, r.media_id, r.from_source, r.from_media, r.partition, r.log_epoch, r.version, r.place,
    r.position_ms, r.duration_ms, r.event_time, r.logged_at
FROM jsonb_to_recordset(%(rows)s::jsonb) AS r (source_id text, user_ref text, media_id text, from_source text,
    from_media text, partition integer, log_epoch integer, version bigint, place text, position_ms bigint,
    duration_ms bigint, event_time bigint, logged_at bigint)
ORDER BY r.source_id, r.user_ref, r.media_id
ON CONFLICT (source_id, user_ref, media_id) DO UPDATE SET from_source = excluded.from_source,
    from_media = excluded.from_media, partition = excluded.partition,
    done_version = CASE WHEN w.log_epoch < excluded.log_epoch THEN -1 ELSE w.done_version END,
    log_epoch = excluded.log_epoch, version = excluded.version, place = excluded.place,
    position_ms = excluded.position_ms, duration_ms = excluded.duration_ms, event_time = excluded.event_time,
    logged_at = excluded.logged_at, refusals = 0
WHERE {_NEWER}
RETURNING source_id, user_ref, media_id
"""

# The server itself has moved it: what was to be told there is history.
OVERTAKE = """
UPDATE core.forward_wanted w SET place = 'none', from_source = r.source_id, from_media = r.media_id,
    log_epoch = r.log_epoch, version = r.version, event_time = r.event_time, logged_at = r.logged_at, sent = '{}',
    done_version = CASE WHEN w.log_epoch < r.log_epoch THEN -1 ELSE w.done_version END
FROM jsonb_to_recordset(%(rows)s::jsonb) AS r (source_id text, user_ref text, media_id text, log_epoch integer,
    version bigint, event_time bigint, logged_at bigint)
WHERE w.source_id = r.source_id AND w.user_ref = r.user_ref AND w.media_id = r.media_id
  AND (r.log_epoch, r.version) > (w.log_epoch, w.version) AND r.logged_at >= w.logged_at
"""

_OF_OLDER_LOG = "coalesce((t.payload ->> 'logged_at')::bigint, 0) > r.logged_at"


def _plays(told: str) -> str:
    """Plays to tell, but for those of which their task ``t`` says ``told``. What was reported before core became a
    backup's is folded again from the backup on, and may have been told then."""
    return f"""
INSERT INTO core.forward_plays (source_id, user_ref, media_id, log_epoch, version, played_at, tried)
SELECT r.source_id, r.user_ref, r.media_id, r.log_epoch, r.version, r.played_at,
    coalesce(r.logged_at < extract(epoch FROM e.restored_at) * 1000, false)
FROM jsonb_to_recordset(%(rows)s::jsonb) AS r (source_id text, user_ref text, media_id text, log_epoch integer,
    version bigint, played_at bigint, logged_at bigint)
CROSS JOIN model.epoch e
WHERE NOT EXISTS (
    SELECT FROM core.tasks t WHERE t.kind = 'forward' AND t.key = r.user_ref || ':' || r.media_id AND {told})
ORDER BY r.source_id, r.user_ref, r.media_id, r.log_epoch, r.version
ON CONFLICT DO NOTHING
"""


PLAYS = _plays(f"((t.log_epoch, t.wanted_version) >= (r.log_epoch, r.version) OR {_OF_OLDER_LOG})")
# Of a decision whose turn was missed: later ones are no sign that it was told.
PLAYS_LATE = _plays(f"t.log_epoch < r.log_epoch AND {_OF_OLDER_LOG}")
# Who is at the task now has not read what was added, and would call all of it done: such a task is left alone.
DUE_LATE = """
UPDATE core.tasks t SET done_version = least(t.done_version, t.wanted_version - 1), requested_at = now(), attempts = 0,
    next_attempt_at = now(), dead_at = NULL
FROM jsonb_to_recordset(%(rows)s::jsonb) AS r (key text)
WHERE t.kind = 'forward' AND t.key = r.key AND coalesce(t.lease_until <= now(), true)
"""

_WAITS = "(t.wanted_version > greatest(t.done_version, t.cancelled_version) AND t.dead_at IS NULL)"
_OTHER_LOG = "t.log_epoch < excluded.log_epoch"
TASKS = f"""
INSERT INTO core.tasks AS t (kind, key, source_id, log_epoch, wanted_version, payload, correlation_id, requested_at)
SELECT 'forward', r.key, r.source_id, r.log_epoch, r.version,
    jsonb_build_object('record', r.record, 'soon', r.soon, 'logged_at', r.logged_at), r.correlation_id, now()
FROM jsonb_to_recordset(%(rows)s::jsonb) AS r (key text, source_id text, log_epoch integer, version bigint, record text,
    soon boolean, logged_at bigint, correlation_id text)
ORDER BY r.key
ON CONFLICT (kind, key) DO UPDATE SET
    payload = excluded.payload, correlation_id = excluded.correlation_id,
    requested_at = CASE WHEN {_WAITS} THEN t.requested_at ELSE now() END,
    attempts = CASE WHEN t.dead_at IS NOT NULL OR {_OTHER_LOG} THEN 0 ELSE t.attempts END,
    next_attempt_at = CASE
        WHEN t.dead_at IS NOT NULL THEN now() + make_interval(secs => {AGAIN_AFTER_DEATH_S})
        WHEN {_WAITS} AND (t.attempts > 0 OR NOT (excluded.payload ->> 'soon')::boolean) THEN t.next_attempt_at
        WHEN (excluded.payload ->> 'soon')::boolean THEN now()
        ELSE greatest(now(), t.finished_at + make_interval(secs => {GAP_S})) END,
    done_version = CASE WHEN {_OTHER_LOG} THEN -1 ELSE t.done_version END,
    cancelled_version = CASE WHEN {_OTHER_LOG} THEN -1 ELSE t.cancelled_version END,
    running_version = CASE WHEN {_OTHER_LOG} THEN NULL ELSE t.running_version END,
    dead_at = NULL, log_epoch = excluded.log_epoch, wanted_version = excluded.wanted_version
WHERE (excluded.log_epoch, excluded.wanted_version) > (t.log_epoch, t.wanted_version)
    AND (excluded.payload ->> 'logged_at')::bigint >= coalesce((t.payload ->> 'logged_at')::bigint, 0)
"""
FORGET = (
    "DELETE FROM core.forward_wanted WHERE user_ref = ANY(%(people)s)",
    "DELETE FROM core.forward_plays WHERE user_ref = ANY(%(people)s)",
    "DELETE FROM core.tasks WHERE kind = 'forward' AND split_part(key, ':', 1) = ANY(%(people)s)",
)
