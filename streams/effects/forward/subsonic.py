"""Subsonic servers: a bookmark for a place to resume, a scrobble for a play.

Seen on real servers: a scrobble counts each time it is said, older ones too, and ``played`` keeps whole seconds of the
newest; several ids in one scrobble are one (gonic); a bookmark of an unknown song is ok, and not stored; supysonic has
no bookmarks and counts nothing. So each play is one call, and the song is asked first.
"""

from __future__ import annotations

from streams.domain.forwarding import Change, Has
from streams.effects.forward.moments import moment
from streams.effects.forward.ports import Thing
from streams.upstream.errors import NotOffered
from streams.upstream.subsonic import Subsonic


class SubsonicServer:
    def __init__(self, server: Subsonic) -> None:
        self._server = server

    async def speaks_for(self, user: str) -> bool:
        return user == self._server.user

    async def read(self, user: str, thing: Thing) -> Has:
        del user
        song = await self._server.song(thing.media)
        count, duration = song.get("playCount"), song.get("duration")
        try:
            bookmarks, keeps = await self._server.bookmarks(), True
        except NotOffered:
            bookmarks, keeps = [], False
        mine = next((one for one in bookmarks if _song_of(one) == thing.media), None)
        position = mine.get("position") if mine else None
        return Has(
            position_ms=position if isinstance(position, int) and position > 0 else 0,
            at=moment(mine.get("changed")) if mine else None,
            play_count=count if isinstance(count, int) else 0,
            last_play_at=moment(song.get("played")),
            duration_ms=duration * 1000 if isinstance(duration, int) else None,
            keeps_positions=keeps,
            keeps_played=False,
        )

    async def write(self, user: str, thing: Thing, has: Has, change: Change) -> None:
        del user, has
        for play in change.plays:
            await self._server.scrobble(thing.media, play.at)
        if change.position_ms:
            await self._server.create_bookmark(thing.media, change.position_ms)
        elif change.position_ms == 0:
            await self._server.delete_bookmark(thing.media)


def _song_of(bookmark: dict[str, object]) -> str | None:
    entry = bookmark.get("entry")
    found = entry.get("id") if isinstance(entry, dict) else None
    return None if found is None else str(found)
