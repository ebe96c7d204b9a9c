"""Questions to the read models, as the reader role may ask them. Each is one statement, so that rows and their
version are of the same moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from psycopg.rows import dict_row

from projections.api.versions import Version
from streams.runtime.database import Connection, Database

Row = dict[str, Any]

# Media may have ended in others: what is asked for leads to the one that stays (sql/functions/progress_of.sql).
_PROGRESS = "SELECT * FROM api.progress_of(%(user)s, %(media)s) ORDER BY place LIMIT 1"

_PROGRESS_PAGE = """
SELECT v.model_epoch AS list_model_epoch, v.log_epoch AS list_log_epoch, v.partition AS list_partition,
       v.version AS list_version, page.*
FROM (SELECT 1) AS one
LEFT JOIN api.user_versions v ON v.user_ref = %(user)s
LEFT JOIN LATERAL api.progress_of(%(user)s, api.media_after(%(user)s, %(after)s, %(limit)s)) AS page ON true
ORDER BY page.media_id"""

CONTINUE_PAGE = """
SELECT v.model_epoch AS list_model_epoch, v.log_epoch AS list_log_epoch, v.partition AS list_partition,
       v.version AS list_version, page.*
FROM (SELECT 1) AS one
LEFT JOIN api.user_versions v ON v.user_ref = %(user)s
LEFT JOIN LATERAL (
    SELECT * FROM api.continue_watching
    WHERE user_ref = %(user)s
      AND (%(time)s::bigint IS NULL OR (event_time, media_id) < (%(time)s::bigint, %(after)s::text))
    ORDER BY event_time DESC, media_id DESC LIMIT %(limit)s
) AS page ON true
ORDER BY page.event_time DESC, page.media_id DESC"""

# Of each of the media that are one the newest, by its index; then the newest of all.
_HISTORY_PAGE = """
SELECT p.model_epoch AS list_model_epoch, p.log_epoch AS list_log_epoch, p.partition AS list_partition,
       p.version AS list_version, p.media_id AS list_media_id, p.joined AS list_joined, page.*
FROM (SELECT * FROM api.progress_of(%(user)s, %(media)s) ORDER BY place LIMIT 1) AS p
LEFT JOIN LATERAL (
    SELECT h.*
    FROM (
        SELECT p.media_id UNION ALL SELECT m.media_id FROM api.media_merges m WHERE m.survivor = p.media_id
    ) AS one
    CROSS JOIN LATERAL (
        SELECT * FROM api.history h
        WHERE h.user_ref = p.user_ref AND h.decided_media_id = one.media_id
          AND (%(epoch)s::bigint IS NULL OR (h.log_epoch, h.version) < (%(epoch)s::bigint, %(version)s::bigint))
        ORDER BY h.log_epoch DESC, h.version DESC LIMIT %(limit)s
    ) AS h
    ORDER BY h.log_epoch DESC, h.version DESC LIMIT %(limit)s
) AS page ON true
ORDER BY page.log_epoch DESC, page.version DESC"""

# Of each key that has an event of this id the first decision, and how many deliveries of it there were.
_EVENTS = """
SELECT DISTINCT ON (source_id, user_ref, media_id) *,
       count(*) OVER (PARTITION BY source_id, user_ref, media_id) AS deliveries,
       logged_day < (now() AT TIME ZONE 'UTC')::date - %(days)s AS expired
FROM api.events
WHERE event_id = %(event)s AND (%(source)s::text IS NULL OR source_id = %(source)s)
  AND (%(user)s::text IS NULL OR user_ref = %(user)s)
  AND (%(media)s::text[] IS NULL OR media_id IN (
      SELECT coalesce(m.survivor, asked) FROM unnest(%(media)s::text[]) AS asked
      LEFT JOIN api.media_merges m ON m.media_id = asked))
ORDER BY source_id, user_ref, media_id, log_epoch, version
LIMIT %(limit)s"""

_DECIDED = "SELECT 1 FROM api.events WHERE event_id = %(event)s AND user_ref = %(user)s LIMIT 1"

# One person's history, by its index; event ids have none there, for every report would pay for it.
_IN_HISTORY = """
SELECT 1 FROM api.history
WHERE user_ref = %(user)s AND event_id = %(event)s AND (%(source)s::text IS NULL OR source_id = %(source)s) LIMIT 1"""

EVENT_DAYS = 30
CANDIDATES_MAX = 10
CONNECTIONS_MAX = 8


@dataclass(frozen=True, slots=True)
class Page:
    """Rows of a list, and the version of the whole list: None when it never had an entry."""

    rows: Sequence[Row]
    version: Version | None


@dataclass(frozen=True, slots=True)
class History(Page):
    """A page of the history of ``media_id``, which stays; ``joined`` ended in it, and their history is in here."""

    media_id: str
    joined: Sequence[str]


class ReadModels:
    """Use as an async context manager. Every question raises DatabaseAway when there is no answer in time."""

    def __init__(self, database: Database) -> None:
        """``database``: as role reader."""
        self._database = database

    async def __aenter__(self) -> Self:
        await self._database.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._database.__aexit__(*exc)

    async def probe(self) -> None:
        """For readiness."""
        await self._database.probe()

    async def progress(self, user: str, media: Sequence[str], *, fresh: bool = False) -> tuple[Row, Version] | None:
        """One person's playback of the first of ``media`` there is anything about. ``fresh``: read now, not before."""
        del fresh  # it always is
        rows = await self._ask(_PROGRESS, user=user, media=list(media))
        if not rows:
            return None
        row = rows[0]
        return row, Version(row["model_epoch"], row["log_epoch"], row["partition"], row["version"])

    async def progress_page(self, user: str, after: str | None, limit: int) -> Page:
        """A person's playback by media_id, after ``after``."""
        return page_of(await self._ask(_PROGRESS_PAGE, user=user, after=after, limit=limit))

    async def continue_page(self, user: str, after: tuple[int, str] | None, limit: int, *, fresh: bool = False) -> Page:
        """What can be gone on with, newest first, after the entry with this (event_time, media_id)."""
        del fresh
        time, media = after or (None, None)
        return page_of(await self._ask(CONTINUE_PAGE, user=user, time=time, after=media, limit=limit))

    async def history_page(
        self, user: str, media: Sequence[str], before: tuple[int, int] | None, limit: int
    ) -> History | None:
        """The history of the first of ``media`` there is anything about, newest first, before this
        (log_epoch, version); None when there is none."""
        epoch, version = before or (None, None)
        rows = await self._ask(_HISTORY_PAGE, user=user, media=list(media), epoch=epoch, version=version, limit=limit)
        if not rows:
            return None
        page = page_of(rows)
        return History(page.rows, page.version, rows[0]["list_media_id"], rows[0]["list_joined"])

    async def events(
        self, event_id: str, *, source: str | None, user: str | None, media: Sequence[str] | None
    ) -> list[Row]:
        """What became of the reports with this id: one row for each (source, user, media), at most CANDIDATES_MAX."""
        return await self._ask(
            _EVENTS,
            event=event_id,
            source=source,
            user=user,
            media=None if media is None else list(media),
            days=EVENT_DAYS,
            limit=CANDIDATES_MAX,
        )

    async def in_history(self, event_id: str, *, source: str | None, user: str) -> bool:
        """Whether the history of this person has the report, which it does for longer than ``events``."""
        return bool(await self._ask(_IN_HISTORY, event=event_id, source=source, user=user))

    async def decided(self, event_id: str, user: str) -> bool:
        """Whether the read model has the decision of a report of this person."""
        return bool(await self._ask(_DECIDED, event=event_id, user=user))

    async def _ask(self, query: str, **parameters: Any) -> list[Row]:
        async def work(connection: Connection) -> list[Row]:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(query.encode(), parameters)
            return await cursor.fetchall()

        return await self._database.run(work)


def page_of(rows: Sequence[Row]) -> Page:
    first = rows[0]
    version = (
        None
        if first["list_version"] is None
        else Version(first["list_model_epoch"], first["list_log_epoch"], first["list_partition"], first["list_version"])
    )
    return Page([row for row in rows if row["version"] is not None], version)
