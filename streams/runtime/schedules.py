"""Scans that nobody has to ask for: rows with a cron expression in UTC, and follow-ups that are due once.

A row that is due is claimed under a lease, its scan requested in the log, then moved on to its next time; a worker
that dies in between requests the scan twice, and a scan requested twice is one scan. Times are PostgreSQL's; what
follows a time is reckoned from its ``now()``, so that no worker's clock decides.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from croniter import croniter
from croniter.croniter import CroniterError

from streams.runtime.blocking import BlockingDatabase, Connection
from streams.runtime.errors import Permanent
from streams.runtime.tokens import SyncConnection

DEFAULT_CRON: Final = "0 */6 * * *"
DEFAULT_JITTER_S: Final = 1_800
"""Every source is scanned four times a day, sources of a household not all at once."""
RECONCILE: Final = "reconcile"
"""By whom comparisons are requested, which are no scans: every night, each source at another time."""
RECONCILE_CRON: Final = "0 3 * * *"
RECONCILE_JITTER_S: Final = 7_200
LISTED_SERVERS: Final = ("subsonic", "jellyfin", "audiobookshelf")
"""Kinds of media servers that can be listed."""
LEASE_S: Final = 60
FOLLOW_UP_FIRST_S: Final = 45
FOLLOW_UP_LONGEST_S: Final = 900
"""A follow-up of a follow-up waits twice as long: something is written there all day."""
CRON_CHARS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Due:
    """A claimed row. ``now``: by the server's clock."""

    schedule_id: str
    source_id: str
    requested_by: str
    cron: str | None
    jitter_s: int
    now: datetime
    token: str = field(repr=False)


def check_cron(cron: str) -> None:
    """Raises Permanent when it is no expression of five fields that ever comes true."""
    if len(cron) > CRON_CHARS_MAX or len(cron.split()) != 5:
        raise Permanent("a schedule is five fields as cron has them, like '0 */6 * * *' (UTC)", cause="bad_schedule")
    try:
        next_time(cron, datetime(2026, 1, 1, tzinfo=UTC))
    except (CroniterError, ValueError) as exc:
        raise Permanent(f"that is no schedule: {exc}", cause="bad_schedule") from None


def next_time(cron: str, after: datetime) -> datetime:
    """The first time after ``after`` (aware) that the expression means, in UTC."""
    found = croniter(cron, after.astimezone(UTC)).get_next(datetime)
    assert isinstance(found, datetime)
    return found


def schedule_scans(connection: SyncConnection, source_id: str, cron: str | None) -> None:
    """Scan a source by this schedule, or by the default one unless it has one; the caller commits."""
    row = connection.execute("SELECT now()").fetchone()
    assert row is not None
    wanted = cron or DEFAULT_CRON
    connection.execute(
        "INSERT INTO core.schedules AS s (schedule_id, source_id, requested_by, cron, jitter_s, next_at)"
        " VALUES (%(id)s, %(source)s, 'schedule', %(cron)s, %(jitter)s, %(next)s)"
        " ON CONFLICT (schedule_id) DO UPDATE SET cron = excluded.cron, jitter_s = excluded.jitter_s,"
        " next_at = excluded.next_at WHERE %(given)s AND s.cron IS DISTINCT FROM excluded.cron",
        {
            "id": f"scan:{source_id}",
            "source": source_id,
            "cron": wanted,
            # Who says when means it.
            "jitter": DEFAULT_JITTER_S if cron is None else 0,
            "next": next_time(wanted, row[0]),
            "given": cron is not None,
        },
    )


class Schedules:
    """The rows of core.schedules as workers see them. All methods raise DatabaseAway."""

    def __init__(self, database: BlockingDatabase) -> None:
        self._database = database

    def provide(self) -> None:
        """Give the default schedule to every source that can be scanned and has none."""

        def work(connection: Connection) -> None:
            rows = connection.execute(
                "SELECT source_id FROM (SELECT source_id FROM core.source_trees UNION"
                " SELECT source_id FROM core.source_upstreams JOIN core.sources USING (source_id)"
                " WHERE kind = ANY(%s)) AS listed"
                " WHERE 'scan:' || source_id NOT IN (SELECT schedule_id FROM core.schedules)",
                (list(LISTED_SERVERS),),
            ).fetchall()
            for (source_id,) in rows:
                schedule_scans(connection, source_id, None)

        self._database.run(work)

    def provide_comparisons(self) -> None:
        """The same of comparisons, to every source there is something to compare with."""

        def work(connection: Connection) -> None:
            [(now,)] = connection.execute("SELECT now()").fetchall()
            connection.execute(
                "INSERT INTO core.schedules (schedule_id, source_id, requested_by, cron, jitter_s, next_at)"
                " SELECT 'reconcile:' || source_id, source_id, %(name)s, %(cron)s, %(jitter)s,"
                " %(next)s::timestamptz + make_interval(secs => random() * %(jitter)s)"
                " FROM (SELECT source_id FROM core.source_trees UNION SELECT source_id FROM core.source_upstreams) AS k"
                " ON CONFLICT DO NOTHING",
                {
                    "name": RECONCILE,
                    "cron": RECONCILE_CRON,
                    "jitter": RECONCILE_JITTER_S,
                    "next": next_time(RECONCILE_CRON, now),
                },
            )

        self._database.run(work)

    def claim(self) -> Due | None:
        """The row that has been due for longest, held for LEASE_S; None when nothing is due."""

        def work(connection: Connection) -> tuple[Any, ...] | None:
            return connection.execute(
                "WITH next AS (SELECT schedule_id FROM core.schedules WHERE next_at <= now()"
                " AND (lease_until IS NULL OR lease_until <= now()) ORDER BY next_at LIMIT 1 FOR UPDATE SKIP LOCKED)"
                " UPDATE core.schedules s SET lease_token = %s, lease_until = now() + make_interval(secs => %s)"
                " FROM next WHERE s.schedule_id = next.schedule_id"
                " RETURNING s.schedule_id, s.source_id, s.requested_by, s.cron, s.jitter_s, now(), s.lease_token",
                (secrets.token_hex(8), LEASE_S),
            ).fetchone()

        row = self._database.run(work)
        return None if row is None else Due(*row)

    def moved_on(self, due: Due, jitter_s: float) -> bool:
        """Its scan is requested: on to its next time and ``jitter_s`` more, or to none. False: another did it."""
        next_at = None if due.cron is None else next_time(due.cron, due.now)

        def work(connection: Connection) -> bool:
            done = connection.execute(
                "UPDATE core.schedules SET lease_token = NULL, lease_until = NULL, last_at = now(),"
                " next_at = %s::timestamptz + make_interval(secs => %s) WHERE schedule_id = %s AND lease_token = %s",
                (next_at, jitter_s, due.schedule_id, due.token),
            )
            return done.rowcount == 1

        return self._database.run(work)

    def follow_up(self, source_id: str, *, again: bool) -> None:
        """One more scan of a source within a minute; ``again``: the one that just ended was such a scan itself."""

        def work(connection: Connection) -> None:
            connection.execute(
                "INSERT INTO core.schedules AS s (schedule_id, source_id, requested_by, delay_s, next_at)"
                " VALUES (%(id)s, %(source)s, 'follow_up', %(first)s, now() + make_interval(secs => %(first)s))"
                " ON CONFLICT (schedule_id) DO UPDATE SET"
                " delay_s = CASE WHEN %(again)s THEN least(2 * coalesce(s.delay_s, %(first)s), %(longest)s)"
                " ELSE %(first)s END, next_at = now() + make_interval(secs => CASE WHEN %(again)s"
                " THEN least(2 * coalesce(s.delay_s, %(first)s), %(longest)s) ELSE %(first)s END)",
                {
                    "id": f"follow_up:{source_id}",
                    "source": source_id,
                    "first": FOLLOW_UP_FIRST_S,
                    "longest": FOLLOW_UP_LONGEST_S,
                    "again": again,
                },
            )

        self._database.run(work)
