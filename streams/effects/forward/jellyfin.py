"""Jellyfin: a person's data of an item, written as a whole, so that the same write twice is one.

The server counts a play and notes LastPlayedDate when somebody begins, and unsets Played then (SessionManager,
UserDataManager). What is written here is kept as it is: its own rules for short and nearly finished plays are for
sessions.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from streams.domain.forwarding import Change, Has
from streams.upstream.jellyfin import Jellyfin

TICKS_PER_MS: Final = 10_000


class JellyfinServer:
    def __init__(self, server: Jellyfin) -> None:
        self._server = server

    async def read(self, user: str, media: str) -> Has:
        return has_of(await self._server.user_data(user, media))

    async def write(self, user: str, media: str, has: Has, change: Change) -> None:
        await self._server.set_user_data(user, media, data_of(has, change))


def has_of(data: dict[str, Any]) -> Has:
    """Of the UserData of Jellyfin and Emby."""
    ticks, count, at = data.get("PlaybackPositionTicks"), data.get("PlayCount"), moment(data.get("LastPlayedDate"))
    played = data.get("Played") is True
    return Has(
        position_ms=ticks // TICKS_PER_MS if isinstance(ticks, int) and ticks > 0 else 0,
        played=played,
        at=at,
        play_count=count if isinstance(count, int) else 0,
        last_play_at=at,
        raw=data,
    )


def data_of(has: Has, change: Change) -> dict[str, Any]:
    """The UserData to write: only what changes, all of it absolute."""
    data: dict[str, Any] = {}
    if change.position_ms is not None:
        data["PlaybackPositionTicks"] = change.position_ms * TICKS_PER_MS
    if change.played is not None:
        data["Played"] = change.played
        data.setdefault("PlaybackPositionTicks", 0)
    if change.plays:
        data["PlayCount"] = (has.play_count or 0) + len(change.plays)
    at = max([change.at, *(play.at for play in change.plays)])
    if change.played is not False or change.position_ms:
        data["LastPlayedDate"] = _time(max(at, has.at or 0))
    return data


def moment(value: object) -> int | None:
    """A server's time, epoch ms; None when it tells none."""
    if not isinstance(value, str) or not value:
        return None
    head, _, fraction = value.rstrip("Z").partition(".")
    digits = fraction.partition("+")[0][:6]
    try:
        parsed = datetime.fromisoformat(head.partition("+")[0])
    except ValueError:
        return None
    whole = int(parsed.replace(tzinfo=UTC).timestamp()) * 1000
    return whole + int((digits + "000")[:3]) if digits.isdigit() or not digits else whole


def _time(ms: int) -> str:
    text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "0000Z"
