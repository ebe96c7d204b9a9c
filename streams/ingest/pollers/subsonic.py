"""Subsonic servers: what an account has bookmarked and queued, how often it played what, and what it plays now.

Positions are the server's last word on where somebody is, whoever wrote it: progress at the time it `changed`. A
bookmark or queue that is gone says nothing (gonic deletes bookmarks when a folder is not mounted). A play is a listen
at the time the server has for it; of plays between two polls it tells the newest only. On gonic a now-playing notice
counts as a play: what is counted twice within the length of the track is taken for one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from streams.ingest.hooks.checks import Refuse, accept, guarded
from streams.ingest.hooks.fields import Fields
from streams.ingest.hooks.result import Ignored, Listen, Rejected, Result
from streams.ingest.hooks.subsonic_responses import parse_response
from streams.ingest.pollers.lists import Listing, Page, Pages, ServerPoller, usable
from streams.ingest.pollers.statements import PLAYING, Counted, Playing, Standing, Statement
from streams.runtime.clock import Clock
from streams.runtime.polls import Key
from streams.upstream.subsonic import Subsonic

RECENT_ALBUMS: Final = 5
PAGE: Final = 500


class SubsonicPoller(ServerPoller):
    def __init__(self, server: Subsonic, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    def lists(self, *, sweep: bool) -> list[Listing]:
        found = [
            Listing(PLAYING, self._now_playing, whole=True),
            Listing("play queue", self._queue),
            Listing("bookmarks", self._bookmarks),
            Listing("recent plays", lambda: self._counts(self._server.recently_played(RECENT_ALBUMS))),
        ]
        if sweep:
            found.append(Listing("all plays", lambda: self._counts(self._server.songs())))
        return found

    def speaks_for(self, user: str) -> bool:
        return user == self._server.user

    async def _now_playing(self) -> Pages:
        read_at = self._clock.now_ms()
        statements: list[Statement] = []
        unusable = 0
        for entry in await self._server.now_playing():
            reports, refused = usable(_parsed({"nowPlaying": {"entry": entry}}))
            unusable += refused
            fields = Fields(entry)
            # Entries of people who gave no account to be polled are nobody's business.
            for report in (one for one in reports if one.upstream_user == self._server.user):
                player = _word(fields, "playerId") or report.device_id or ""
                statements.append(
                    Playing(
                        Key(self._server.user, PLAYING, player),
                        report,
                        read_at,
                        began_at=_began(fields, read_at) if report.position_ms is None else None,
                    )
                )
        yield Page(tuple(statements), unusable)

    async def _queue(self) -> Pages:
        queue = await self._server.play_queue()
        if queue is not None:
            yield self._standing("play queue", {"playQueue": queue}, one_place=True)

    async def _bookmarks(self) -> Pages:
        bookmarks = await self._server.bookmarks()
        for start in range(0, len(bookmarks), PAGE):
            yield self._standing("bookmarks", {"bookmarks": {"bookmark": bookmarks[start : start + PAGE]}})

    def _standing(self, facet: str, response: dict[str, Any], *, one_place: bool = False) -> Page:
        reports, unusable = usable(_parsed(response))
        mine = [report for report in reports if report.upstream_user == self._server.user]
        return Page(
            tuple(
                Standing(Key(self._server.user, facet, "" if one_place else str(report.upstream_media)), report)
                for report in mine
            ),
            unusable,
        )

    async def _counts(self, songs: AsyncIterator[dict[str, Any]]) -> Pages:
        page: list[Statement] = []
        unusable = 0
        async for song in songs:
            match guarded(self._play, Fields(song)):
                case Listen() as listen:
                    count = Fields(song).whole("playCount", "bad_count") or 0
                    key = Key(self._server.user, "plays", str(listen.upstream_media))
                    page.append(Counted(key, count, listen, apart_ms=listen.duration_ms or 0))
                case Rejected():
                    unusable += 1
                case _:
                    pass
            if len(page) >= PAGE:
                yield Page(tuple(page), unusable)
                page, unusable = [], 0
        yield Page(tuple(page), unusable)

    def _play(self, song: Fields) -> Result:
        """The song's last play, if it was ever played."""
        played_at = song.moment("played")
        if played_at is None or not (song.whole("playCount", "bad_count") or 0):
            return Ignored("unplayed", "it was never played")
        return accept(
            Listen(
                kind="finish",
                origin="poll",
                upstream_user=self._server.user,
                upstream_media=song.identifier("id"),
                media_kind="podcast" if song.word("type") == "podcast" else "music",
                duration_ms=song.duration("duration", per_unit=1000),
                occurred_at=played_at,
                played=True,
            )
        )


def _parsed(response: dict[str, Any]) -> list[Result]:
    try:
        return parse_response(Fields(response))
    except Refuse as refusal:
        return [Rejected(refusal.reason, refusal.detail)]


def _word(fields: Fields, name: str) -> str | None:
    try:
        return fields.identifier(name)
    except Refuse:
        return None


def _began(entry: Fields, read_at: int) -> int | None:
    try:
        minutes = entry.whole("minutesAgo", "bad_time")
    except Refuse:
        return None
    return None if minutes is None or not 0 <= minutes < 24 * 60 else read_at - minutes * 60_000
