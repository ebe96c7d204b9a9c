"""Plex: the view offset of an item, and its scrobble, as the person whose token it is.

The owner's token writes the owner's data, who is person 1 on the server itself. A scrobble counts one more view at the
server's own time and takes the offset away; what is watched again has views and an offset.
"""

from __future__ import annotations

from typing import Final

from streams.domain.forwarding import Change, Has
from streams.effects.forward.ports import Thing
from streams.upstream.plex import Plex

OWNER: Final = "1"


class PlexServer:
    def __init__(self, server: Plex, account: str) -> None:
        self._server = server
        self._account = account or OWNER

    async def speaks_for(self, user: str) -> bool:
        return user == self._account

    async def read(self, user: str, thing: Thing) -> Has:
        del user
        item = await self._server.item(thing.media)
        offset, views, viewed = item.get("viewOffset"), item.get("viewCount"), item.get("lastViewedAt")
        count = views if isinstance(views, int) else 0
        position_ms = offset if isinstance(offset, int) and offset > 0 else 0
        at = viewed * 1000 if isinstance(viewed, int) else None
        duration = item.get("duration")
        return Has(
            position_ms=position_ms,
            played=count > 0 and not position_ms,
            at=at,
            play_count=count,
            last_play_at=at if count else None,
            duration_ms=duration if isinstance(duration, int) else None,
            raw=item,
        )

    async def write(self, user: str, thing: Thing, has: Has, change: Change) -> None:
        del user, has
        if change.played or change.plays:
            for _ in range(max(1, len(change.plays))):
                await self._server.scrobble(thing.media)
        if change.position_ms:
            await self._server.set_position(thing.media, change.position_ms)
        elif change.position_ms == 0 or change.played is False:
            await self._server.unscrobble(thing.media)
