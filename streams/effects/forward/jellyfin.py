"""Jellyfin and Emby: a person's data of an item, written in absolute terms, so that the same write twice is one.

The server counts a play and notes LastPlayedDate when somebody begins, and unsets Played then. What is written here is
kept as it is: its rules for short and nearly finished plays are for sessions. Emby puts what it is sent in place of
everything there was, so it is sent everything.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from streams.domain.forwarding import Change, Has, told_at
from streams.effects.forward.moments import moment
from streams.effects.forward.ports import Thing
from streams.upstream.emby import Emby
from streams.upstream.jellyfin import Jellyfin

TICKS_PER_MS: Final = 10_000


class JellyfinServer:
    """``keeps``: what a write must repeat of what the server has, because it would drop it."""

    keeps: tuple[str, ...] = ()

    def __init__(self, server: Jellyfin | Emby) -> None:
        self._server = server

    async def speaks_for(self, user: str) -> bool:
        """A key speaks for everybody, and the server refuses others' tokens."""
        del user
        return True

    async def read(self, user: str, thing: Thing) -> Has:
        return _has(await self._server.user_data(user, thing.media))

    async def write(self, user: str, thing: Thing, has: Has, change: Change) -> None:
        kept = {name: has.raw[name] for name in self.keeps if has.raw.get(name) is not None}
        await self._server.set_user_data(user, thing.media, kept | _data(has, change))


class EmbyServer(JellyfinServer):
    keeps = ("PlaybackPositionTicks", "PlayCount", "IsFavorite", "Played", "LastPlayedDate", "Rating", "Likes")


def _has(data: dict[str, Any]) -> Has:
    ticks, count, at = data.get("PlaybackPositionTicks"), data.get("PlayCount"), moment(data.get("LastPlayedDate"))
    return Has(
        position_ms=ticks // TICKS_PER_MS if isinstance(ticks, int) and ticks > 0 else 0,
        played=data.get("Played") is True,
        at=at,
        play_count=count if isinstance(count, int) else 0,
        last_play_at=at,
        keeps_times=True,
        raw=data,
    )


def _data(has: Has, change: Change) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if change.position_ms is not None:
        data["PlaybackPositionTicks"] = change.position_ms * TICKS_PER_MS
    if change.played is not None:
        data["Played"] = change.played
        data.setdefault("PlaybackPositionTicks", 0)
    if change.plays:
        data["PlayCount"] = (has.play_count or 0) + len(change.plays)
    if change.played is not False or change.position_ms:
        at = datetime.fromtimestamp(told_at(has, change) / 1000, UTC)
        text = at.isoformat(timespec="milliseconds").removesuffix("+00:00")
        data["LastPlayedDate"] = f"{text}0000Z"
    return data
