"""Plex: what plays now, and the history of everybody's finished plays.

`viewOffset` is the player's last word, some ten seconds old at most, and does not move by itself. People have the id
that the webhook's Account has. The history's times are whole seconds.
"""

from __future__ import annotations

from typing import Any, Final

from streams.ingest.hooks.checks import accept, guarded
from streams.ingest.hooks.fields import Fields
from streams.ingest.hooks.result import Ignored, Kind, MediaKind, ParsedReport, Result
from streams.ingest.pollers.lists import Listing, Page, Pages, ServerPoller, read_each, usable
from streams.ingest.pollers.statements import PLAYING, Playing, Standing, Statement
from streams.runtime.clock import Clock
from streams.runtime.polls import Key
from streams.upstream.plex import Plex

_KINDS: Final[dict[str, MediaKind]] = {"movie": "video", "episode": "video", "clip": "video", "track": "music"}
_STATES: Final[dict[str, Kind]] = {"playing": "progress", "paused": "pause", "buffering": "progress"}


class PlexPoller(ServerPoller):
    def __init__(self, server: Plex, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    def lists(self, *, sweep: bool) -> list[Listing]:
        del sweep
        return [
            Listing(PLAYING, self._sessions, whole=True),
            Listing("history", self._history, newest_first=True),
        ]

    def speaks_for(self, user: str) -> bool:
        del user
        return True

    async def _sessions(self) -> Pages:
        read_at = self._clock.now_ms()
        statements: list[Statement] = []
        unusable = 0
        for entry in await self._server.sessions():
            reports, refused = usable([guarded(_playing, Fields(entry))])
            unusable += refused
            for report in reports:
                key = Key(str(report.upstream_user), PLAYING, report.device_id or "")
                statements.append(Playing(key, report, read_at))
        yield Page(tuple(statements), unusable)

    async def _history(self) -> Pages:
        async for entries in self._server.history():
            reports, unusable = read_each(entries, _played)
            statements: list[Statement] = [
                Standing(Key(str(one.upstream_user), "history", f"{one.upstream_media} {one.occurred_at}"), one)
                for one in reports
            ]
            yield Page(tuple(statements), unusable)


def _playing(entry: Fields) -> Result:
    user = entry.child("User").identifier("id")
    player = entry.child("Player")
    if user is None:
        return Ignored("nobody", "nobody's session")
    return _report(
        _STATES.get(player.word("state") or "", "progress"),
        entry,
        user,
        position_ms=entry.milliseconds("viewOffset", "invalid_position") or 0,
        duration_ms=entry.duration("duration"),
        device_id=player.identifier("machineIdentifier"),
    )


def _played(entry: Fields) -> Result:
    user, viewed_at = entry.identifier("accountID"), entry.whole("viewedAt", "invalid_time")
    if user is None or viewed_at is None or viewed_at <= 0:
        return Ignored("incomplete", "nobody's play, or one at no time")
    return _report("finish", entry, user, occurred_at=viewed_at * 1000, played=True)


def _report(kind: Kind, entry: Fields, user: str, **more: Any) -> Result:
    return accept(
        ParsedReport(
            kind=kind,
            origin="poll",
            upstream_user=user,
            upstream_media=entry.identifier("ratingKey"),
            media_kind="live" if entry.flag("live") else _KINDS.get(entry.word("type") or ""),
            **more,
        )
    )
