"""ListenBrainz and what speaks like it: listens, by artist and title. It keeps no positions.

It takes one listen of one track at one second, however often it is sent; it is asked first all the same.
"""

from __future__ import annotations

from typing import Any

from streams.domain.forwarding import Change, Has
from streams.effects.forward.ports import Thing
from streams.upstream.listenbrainz import ListenBrainz


class ListenBrainzServer:
    def __init__(self, server: ListenBrainz, account: str) -> None:
        self._server = server
        self._account = account

    async def speaks_for(self, user: str) -> bool:
        return user == self._account

    async def read(self, user: str, thing: Thing) -> Has:
        del user
        tried = [play.at // 1000 for play in thing.plays]
        found: list[dict[str, Any]] = []
        if tried:
            found = await self._server.listens(self._account, min(tried) - 1, max(tried) + 1)
        told = {one["listened_at"] for one in found if isinstance(one.get("listened_at"), int)}
        return Has(play_count=len(told), counted_s=frozenset(told), keeps_positions=False, keeps_played=False)

    async def write(self, user: str, thing: Thing, has: Has, change: Change) -> None:
        del user, has
        for play in change.plays:
            await self._server.submit(_listen(thing, play.at // 1000))


def _listen(thing: Thing, listened_at: int) -> dict[str, Any]:
    more: dict[str, Any] = {"submission_client": "playhead"}
    if thing.duration_ms:
        more["duration_ms"] = thing.duration_ms
    if thing.recording_id:
        more["recording_mbid"] = thing.recording_id
    track = {
        "artist_name": ", ".join(thing.artists),
        "track_name": thing.title,
        "additional_info": more,
    }
    return {"listened_at": listened_at, "track_metadata": track}
