"""Jellyfin's REST API, with an API key (it sees everybody) or a person's own token.

Sessions are in the server's memory and gone after its restart; user data is in its database. The server moves a
session's PositionTicks on by itself ten seconds after the client's last word, LastPlaybackCheckIn.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from streams.upstream.errors import BadAnswer, NotAllowed, NotOffered
from streams.upstream.http import Upstream

Json: TypeAlias = dict[str, Any]
PAGE: Final = 200
PAGES_MAX: Final = 2_000
_USERS: Final = "/Users"
_GUID = re.compile(r"[0-9a-f]{32}")
_TYPES: Final = "Movie,Episode,Video,MusicVideo,Audio,AudioBook,Recording,Trailer"


def headers(token: str) -> dict[str, str]:
    """What each request carries. The token must hold no quote."""
    return {"Authorization": f'MediaBrowser Token="{token}", Client="playhead", Device="playhead", DeviceId="playhead"'}


@dataclass(frozen=True, slots=True)
class Sessions:
    """``now_ms``: the server's clock when it answered, None when it did not tell."""

    entries: list[Json]
    now_ms: int | None


class Jellyfin:
    """Every method raises UpstreamError."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def users(self) -> list[str]:
        """Ids of the people this token may see: everybody for a key, else the token's own."""
        try:
            answer = await self._upstream.get(_USERS)
            found = answer.value if isinstance(answer.value, list) else []
        except NotOffered:
            found = [(await self._upstream.get(f"{_USERS}/Me")).value]
        return [user["Id"] for user in found if isinstance(user, dict) and isinstance(user.get("Id"), str)]

    async def sessions(self) -> Sessions:
        """What devices play now; idle ones have no NowPlayingItem."""
        answer = await self._upstream.get("/Sessions")
        if not isinstance(answer.value, list):
            raise BadAnswer("the server's answer is no list of sessions")
        return Sessions([entry for entry in answer.value if isinstance(entry, dict)], answer.now_ms)

    async def resumable(self, user: str) -> AsyncIterator[Json]:
        """Items the person began and did not finish, with their UserData."""
        async for item in self._items("/UserItems/Resume", user, [("mediaTypes", "Video,Audio,Book")]):
            yield item

    async def played(self, user: str) -> AsyncIterator[Json]:
        """Items the person has played, the newest first."""
        order = [("isPlayed", "true"), ("sortBy", "DatePlayed"), ("sortOrder", "Descending")]
        async for item in self._items("/Items", user, [("recursive", "true"), ("includeItemTypes", _TYPES), *order]):
            yield item

    async def user_data(self, user: str, item: str) -> Json:
        """The person's data of one item. ``item``: a guid, for it becomes part of an address."""
        if not _GUID.fullmatch(item):
            raise NotAllowed("no guid")
        answer = await self._upstream.get(f"/UserItems/{item}/UserData", [("userId", user)])
        return answer.value if isinstance(answer.value, dict) else {}

    async def _items(self, path: str, user: str, params: list[tuple[str, str]]) -> AsyncIterator[Json]:
        """Items of all pages, each once; ends at a page that brings nothing new."""
        seen: set[str] = set()
        for page in range(PAGES_MAX):
            answer = await self._upstream.get(
                path,
                [
                    ("userId", user),
                    ("startIndex", str(page * PAGE)),
                    ("limit", str(PAGE)),
                    ("enableUserData", "true"),
                    ("enableImages", "false"),
                    *params,
                ],
            )
            items = answer.value.get("Items") if isinstance(answer.value, dict) else None
            if not isinstance(items, list):
                raise BadAnswer("the server's answer has no list of Items")
            fresh = [item for item in items if isinstance(item, dict) and str(item.get("Id")) not in seen]
            if not fresh:
                return
            for item in fresh:
                seen.add(str(item.get("Id")))
                yield item
            if len(items) < PAGE:
                return
