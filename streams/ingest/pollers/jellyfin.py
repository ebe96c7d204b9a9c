"""Jellyfin: what devices play now, and what its database keeps of everybody's playing.

A device's report is new when the client has checked in again; later than ten seconds after it the server has moved the
position on by itself, so it is `automated`. Sessions have the device as their run, as in the webhook.

User data knows when an item was last *begun* (LastPlayedDate), not when its position was stored. So each such time is
a session of its own in which the position is the sequence: within it positions only grow, and an older database that
is put back, which tells a smaller one for the same time, is late however much was forgotten here. An unticked item is
not taken over: an older database looks the same, and the webhook tells it. A play without a time is as old as can be.

The websocket says what devices do about every 1.5 s while any does something, mostly the same again: it is news when a
client has checked in, and of everything when something began or ended.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Final, Literal

from streams.domain.limits import POSITION_MS_MAX
from streams.ingest.hooks.checks import Refuse, accept, guarded
from streams.ingest.hooks.fields import Fields
from streams.ingest.hooks.mediabrowser import CONTAINERS, canonical_guid, media_kind
from streams.ingest.hooks.result import Ignored, ParsedReport, Result
from streams.ingest.pollers.lists import Listing, Page, Pages, ServerPoller, usable
from streams.ingest.pollers.news import EVERYTHING, News
from streams.ingest.pollers.statements import PLAYING, Playing, Standing, Statement, Stopped
from streams.runtime import metrics
from streams.runtime.clock import Clock
from streams.runtime.polls import Key, Seen
from streams.upstream.errors import UpstreamError
from streams.upstream.jellyfin import Jellyfin, Message

CHECK_IN_MS: Final = 10_000
"""After so long without a word of the client the server moves the position on by itself."""
LONG_AGO_MS: Final = 946_684_800_000
"""2000-01-01: the oldest time that is believed, for plays that nobody knows the time of."""
RESUMABLE: Final = "resumable items"
PLAYED: Final = "played items"
_USER_DATA: Final = News(frozenset({RESUMABLE, PLAYED}))
_DEVICES: Final = News(frozenset({PLAYING}))
_PAGE: Final = 200
_WORD_CHARS: Final = 100
_ELSE: Final = (
    *("ActivityLog", "GeneralCommand", "LibraryChanged", "Package", "Play", "Playstate", "RefreshProgress"),
    *("RestartRequired", "ScheduledTask", "SeriesTimer", "Server", "SyncPlay", "Timer", "UserDeleted", "UserUpdated"),
)
"""How messages begin that tell nothing of playing."""


class JellyfinPoller(ServerPoller):
    def __init__(self, server: Jellyfin, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    def lists(self, *, sweep: bool) -> list[Listing]:
        del sweep
        return [
            Listing(PLAYING, self._sessions, whole=True),
            Listing(RESUMABLE, lambda: self._of_everybody(self._server.resumable)),
            Listing(PLAYED, lambda: self._of_everybody(self._server.played), newest_first=True),
        ]

    def speaks_for(self, user: str) -> bool:
        del user
        return True

    async def stopped(self, key: Key, seen: Seen) -> Stopped:
        """Where the server put the end: it stores the position when a device stops."""
        try:
            data = Fields(await self._server.user_data(key.user, str(seen.get("media"))))
            return Stopped(key, data.ticks("PlaybackPositionTicks", "invalid_position") or None)
        except (UpstreamError, Refuse):
            return Stopped(key)

    async def news(self) -> AsyncGenerator[News, None]:
        heard = Heard()
        async with self._server.listen(sessions=await self._server.may_hear_sessions()) as messages:
            yield EVERYTHING
            async for message in messages:
                what = heard.hear(message)
                metrics.POLL_MESSAGES.labels("jellyfin", "news" if isinstance(what, News) else what).inc()
                if isinstance(what, News):
                    yield what

    async def _sessions(self) -> Pages:
        sessions = await self._server.sessions()
        read_at = self._clock.now_ms() if sessions.now_ms is None else sessions.now_ms
        statements: list[Statement] = []
        unusable = 0
        for entry in sessions.entries:
            session = Fields(entry)
            checked_in = session.moment("LastPlaybackCheckIn")
            reports, refused = usable([guarded(_playing, session, checked_in, read_at)])
            unusable += refused
            for report in reports:
                key = Key(str(report.upstream_user), PLAYING, report.device_id or "")
                statements.append(Playing(key, report, read_at, checked_in))
        yield Page(tuple(statements), unusable)

    async def _of_everybody(self, read: Callable[[str], AsyncIterator[dict[str, Any]]]) -> Pages:
        for user in await self._server.users():
            async for page in self._of(user, read):
                yield page

    async def _of(self, user: str, read: Callable[[str], AsyncIterator[dict[str, Any]]]) -> Pages:
        page: list[Statement] = []
        unusable = 0
        async for item in read(user):
            reports, refused = usable([guarded(_user_data, Fields(item), user)])
            unusable += refused
            page += [
                Standing(Key(str(report.upstream_user), "user data", str(report.upstream_media)), report)
                for report in reports
            ]
            if len(page) >= _PAGE:
                yield Page(tuple(page), unusable)
                page, unusable = [], 0
        yield Page(tuple(page), unusable)


class Heard:
    """What one connection has said, so far as it takes to know news from the same again."""

    def __init__(self) -> None:
        self._playing: dict[tuple[str, ...], tuple[str, ...]] = {}

    def hear(self, message: Message) -> News | Literal["nothing", "unknown", "unusable"]:
        """What is new in a message, or what else it is."""
        match message.kind, message.data:
            case "Sessions", list(entries):
                before, self._playing = self._playing, _playing_now(entries)
                if before.keys() != self._playing.keys():
                    return EVERYTHING
                return "nothing" if before == self._playing else _DEVICES
            case "UserDataChanged", _:
                return _USER_DATA
            case (("PlaybackStart" | "PlaybackStopped" | "SessionEnded"), _):
                return EVERYTHING
            case (("" | "Sessions"), _):
                return "unusable"
            case kind, _:
                return "nothing" if kind.startswith(_ELSE) else "unknown"


def _playing_now(entries: list[Any]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Who plays what where → what the client last said of it."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for entry in entries:
        session = Fields(entry)
        item, state = session.child("NowPlayingItem"), session.child("PlayState")
        if item:
            key = _words(session, "UserId", "DeviceId") + _words(item, "Id")
            found[key] = _words(session, "LastPlaybackCheckIn") + _words(state, "IsPaused")
    return found


def _words(fields: Fields, *names: str) -> tuple[str, ...]:
    return tuple(str(fields.raw(name))[:_WORD_CHARS] for name in names)


def _playing(session: Fields, checked_in: int | None, read_at: int) -> Result:
    item = session.child("NowPlayingItem")
    user = canonical_guid(session.identifier("UserId"))
    if not item or user is None:
        return Ignored("idle", "it plays nothing, or is nobody's")
    state = session.child("PlayState")
    paused = bool(state.flag("IsPaused"))
    position_ms = state.ticks("PositionTicks", "invalid_position")
    moved_on = not paused and (checked_in is None or read_at - checked_in > CHECK_IN_MS)
    return _report(
        "pause" if paused else "progress",
        item,
        user,
        position_ms=position_ms if position_ms is not None or paused else 0,
        device_id=session.identifier("DeviceId"),
        occurred_at=checked_in,
        automated=True if moved_on else None,
    )


def _user_data(item: Fields, user: str) -> Result:
    data = item.child("UserData")
    position_ms = data.ticks("PlaybackPositionTicks", "invalid_position") or 0
    played = bool(data.flag("Played"))
    began_at = data.moment("LastPlayedDate")
    if not played and not position_ms:
        return Ignored("unplayed", "neither begun nor played")
    whose = canonical_guid(user)
    if whose is None:
        return Ignored("nobody", "no user")
    if played:
        # What the position is after the end says nothing, and the end comes after every position.
        return _report(
            "finish",
            item,
            whose,
            session_id=f"user data {began_at or 0}",
            sequence=POSITION_MS_MAX + 1,
            occurred_at=LONG_AGO_MS if began_at is None else began_at,
            played=True,
        )
    return _report(
        "progress",
        item,
        whose,
        position_ms=position_ms,
        session_id=f"user data {began_at or 0}",
        sequence=position_ms,
        occurred_at=LONG_AGO_MS if began_at is None else began_at,
    )


def _report(kind: Any, item: Fields, user: str, **more: Any) -> Result:
    identifier = canonical_guid(item.identifier("Id"))
    item_type = (item.word("Type") or "").lower()
    if item_type in CONTAINERS:
        return Ignored("container", "the server tells the same of each part")
    return accept(
        ParsedReport(
            kind=kind,
            origin="poll",
            upstream_user=user,
            upstream_media=identifier,
            media_kind=media_kind(item_type),
            duration_ms=item.duration("RunTimeTicks", per_unit=0.0001),
            **more,
        )
    )
