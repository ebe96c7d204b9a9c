"""The statements of leases.py. Every one compares times with the server's clock, and names a held task by its token."""
# ruff: noqa: S608 - put together from constants of this file

from __future__ import annotations

_WANTED = "dead_at IS NULL AND wanted_version > greatest(done_version, cancelled_version)"
_FREE = "(lease_until IS NULL OR lease_until <= now())"
_OURS = "kind = %(kind)s AND key = %(key)s AND lease_token = %(token)s AND lease_until > now()"
_ERROR = "last_error = %(error)s, last_error_class = %(error_class)s"
_LET_GO = "lease_token = NULL, lease_until = NULL, progress = NULL"

CLAIM = f"""
WITH next AS (
    SELECT kind, key, running_version AS begun, lease_token IS NOT NULL AS expired FROM core.tasks
    WHERE kind = %(kind)s AND {_WANTED} AND {_FREE} AND next_attempt_at <= now()
    ORDER BY next_attempt_at, key LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE core.tasks t SET
    lease_token = lpad(nextval('core.lease_numbers')::text, 12, '0') || '-' || %(random)s,
    lease_until = now() + make_interval(secs => %(ttl)s),
    attempts = t.attempts + 1, running_version = greatest(next.begun, t.wanted_version), progress = NULL
FROM next WHERE t.kind = next.kind AND t.key = next.key
RETURNING t.kind, t.key, t.source_id, t.log_epoch, t.wanted_version,
    CASE WHEN next.begun >= t.wanted_version THEN next.begun END,
    t.payload, t.correlation_id, t.attempts, extract(epoch FROM now() - t.requested_at)::float8, t.lease_token,
    t.done_version, next.expired
"""
RENEW = f"UPDATE core.tasks SET lease_until = now() + make_interval(secs => %(ttl)s) WHERE {_OURS}"
CHECK = (
    "SELECT cancelled_version >= least(%(version)s, coalesce(running_version, %(version)s)) AND"
    f" log_epoch = %(log_epoch)s FROM core.tasks WHERE {_OURS}"
)
BEGIN = f"UPDATE core.tasks SET running_version = %(begun)s WHERE {_OURS}"
PROGRESS = f"UPDATE core.tasks SET progress = %(progress)s WHERE {_OURS}"
FINISH = (
    f"UPDATE core.tasks SET {_LET_GO}, {_ERROR}, attempts = 0, next_attempt_at = now(), running_version = NULL,"
    " finished_at = now(),"
    # Another log's numbers say nothing about what was done in this one.
    " done_version = CASE WHEN log_epoch = %(log_epoch)s THEN greatest(done_version, %(done)s) ELSE done_version END"
    f" WHERE {_OURS}"
)
PUT_OFF = (
    f"UPDATE core.tasks SET {_LET_GO}, {_ERROR}, next_attempt_at = now() + make_interval(secs => %(delay)s)"
    f" WHERE {_OURS}"
)
GIVE_BACK = f"UPDATE core.tasks SET {_LET_GO}, attempts = greatest(attempts - 1, 0) WHERE {_OURS}"
POSTPONE = (
    f"UPDATE core.tasks SET {_LET_GO}, attempts = greatest(attempts - 1, 0),"
    f" next_attempt_at = now() + make_interval(secs => %(delay)s) WHERE {_OURS}"
)
# What was requested after this attempt began is not given up with it.
BURY = (
    f"UPDATE core.tasks SET {_LET_GO}, {_ERROR}, attempts = 0, next_attempt_at = now(), running_version = NULL,"
    " finished_at = now(), dead_at = CASE WHEN wanted_version > %(last)s THEN NULL ELSE now() END,"
    " done_version = CASE WHEN wanted_version > %(last)s AND log_epoch = %(log_epoch)s"
    " THEN greatest(done_version, %(last)s) ELSE done_version END"
    f" WHERE {_OURS}"
)
WAITS = (
    f"SELECT coalesce({_WANTED}, false), coalesce(lease_until > now(), false) FROM core.tasks"
    " WHERE kind = %(kind)s AND key = %(key)s"
)
DEPTH = f"""
SELECT kind, count(*) FILTER (WHERE {_WANTED} AND {_FREE}), count(*) FILTER (WHERE lease_until > now()),
    count(*) FILTER (WHERE dead_at IS NOT NULL),
    coalesce(extract(epoch FROM now() - min(requested_at) FILTER (WHERE {_WANTED})), 0)::float8
FROM core.tasks GROUP BY kind
"""
