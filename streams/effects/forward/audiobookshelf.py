"""Audiobookshelf: the person's progress object of an item, or of an episode, ``item/episode``.

Seen on version 2.36: a PATCH takes anything, and a smaller position un-finishes; ``isFinished`` false puts the position
to 0 even when one is sent; ``progress`` stays as it was unless it is sent; ``lastUpdate`` is taken as sent.
"""

from __future__ import annotations

from typing import Any

from streams.domain.forwarding import Change, Has
from streams.effects.forward.ports import Thing
from streams.upstream.audiobookshelf import Audiobookshelf


class AudiobookshelfServer:
    def __init__(self, server: Audiobookshelf) -> None:
        self._server = server
        self._me: str | None = None

    async def speaks_for(self, user: str) -> bool:
        """A token is one person's, whatever the account is called here."""
        if self._me is None:
            self._me = await self._server.me()
        return self._me == user

    async def read(self, user: str, thing: Thing) -> Has:
        del user
        row = await self._server.progress_of(thing.media)
        finished = row.get("isFinished") is True
        seconds, updated, duration = row.get("currentTime"), row.get("lastUpdate"), row.get("duration")
        return Has(
            position_ms=0 if finished else _ms(seconds),
            played=finished,
            at=updated if isinstance(updated, int) else None,
            duration_ms=_ms(duration) or None,
            raw=row,
        )

    async def write(self, user: str, thing: Thing, has: Has, change: Change) -> None:
        del user
        at = max(change.at, has.at or 0)
        await self._server.set_progress(thing.media, _changes(change, has.duration_ms or thing.duration_ms, at))


def _changes(change: Change, duration_ms: int | None, at: int) -> dict[str, Any]:
    if change.position_ms:
        changes: dict[str, Any] = {"currentTime": change.position_ms / 1000, "lastUpdate": at}
        if duration_ms:
            share = min(1.0, change.position_ms / duration_ms)
            changes |= {"duration": duration_ms / 1000, "progress": share}
        return changes
    if change.played:
        return {"isFinished": True, "finishedAt": at, "lastUpdate": at}
    return {"isFinished": False, "currentTime": 0, "progress": 0, "lastUpdate": at}


def _ms(seconds: object) -> int:
    """Clients have stored null, -3 and "abc" there."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 1e9:
        return 0
    return round(seconds * 1000)
