"""Audiobookshelf: a person's progress and listening sessions.

Seen on real servers: several progress rows for one item after a race (the newest is taken), positions of null, -3 and
"abc" (left out), lastUpdate set back by a client (told as it is: late). A session that a lost answer made a client sync
twice has its listening doubled by the server; nobody can tell.

Its Socket.IO tells what a client stores as it is stored (``user_updated``, ``user_item_progress_updated``), and when a
session closes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from streams.ingest.hooks import audiobookshelf as parser
from streams.ingest.hooks.fields import Fields
from streams.ingest.hooks.result import ParsedReport, Result
from streams.ingest.pollers.lists import Listing, Page, Pages, ServerPoller, read_each
from streams.ingest.pollers.news import EVERYTHING, News
from streams.ingest.pollers.statements import Standing, Statement
from streams.runtime import metrics
from streams.runtime.polls import Key
from streams.upstream.audiobookshelf import Audiobookshelf
from streams.upstream.http import NotModified, Upstream

_PAGE: Final = 500
_TELLS: Final = frozenset({"user_updated", "user_item_progress_updated", "user_session_closed"})
_ELSE: Final = (
    *("user_online", "user_offline", "user_stream_update", "admin_message", "pong", "log", "daily_logs"),
    *("item_", "items_", "library_", "task_", "episode_", "author_", "series_", "collection_", "playlist_"),
    *("scan_", "backup_", "rss_feed_", "metadata_", "audio_", "track_", "stream_", "notifications_", "ereader_"),
)
"""How events begin that tell nothing of playing."""


class AudiobookshelfPoller(ServerPoller):
    def __init__(self, server: Audiobookshelf, upstream: Upstream) -> None:
        self._server = server
        self._upstream = upstream

    def lists(self, *, sweep: bool) -> list[Listing]:
        del sweep
        # Sessions first: of the two that tell one listening they know device and length.
        return [
            Listing("sessions", self._sessions, newest_first=True),
            Listing("progress", self._progress),
        ]

    def speaks_for(self, user: str) -> bool:
        del user
        return False

    async def news(self) -> AsyncGenerator[News, None]:
        async with self._server.listen() as events:
            yield EVERYTHING
            async for event in events:
                what = _what(event.name)
                metrics.POLL_MESSAGES.labels("audiobookshelf", what).inc()
                if what == "news":
                    yield EVERYTHING

    def settled(self) -> None:
        self._upstream.settle()

    def unsettled(self) -> None:
        self._upstream.unsettle()

    async def _progress(self) -> Pages:
        found = await self._server.progress()
        if isinstance(found, NotModified):
            return
        reports, unusable = read_each(found, _progress_of)
        newest: dict[tuple[str, str], ParsedReport] = {}
        for report in reports:
            place = (str(report.upstream_user), str(report.upstream_media))
            if place not in newest or (report.occurred_at or 0) > (newest[place].occurred_at or 0):
                newest[place] = report
        statements = [Standing(Key(user, "progress", media), one) for (user, media), one in newest.items()]
        for start in range(0, len(statements), _PAGE):
            yield Page(tuple(statements[start : start + _PAGE]))
        yield Page((), unusable)

    async def _sessions(self) -> Pages:
        async for entries in self._server.sessions():
            reports, unusable = read_each(entries, _session_of)
            statements: list[Statement] = [
                Standing(Key(str(report.upstream_user), "sessions", str(report.session_id)), report)
                for report in reports
                if report.session_id is not None
            ]
            yield Page(tuple(statements), unusable)


def _what(event: str) -> str:
    if not event:
        return "unusable"
    if event in _TELLS:
        return "news"
    return "nothing" if event.startswith(_ELSE) else "unknown"


def _progress_of(entry: Fields) -> Result:
    return parser.progress(entry)


def _session_of(entry: Fields) -> Result:
    return parser.session(entry)
