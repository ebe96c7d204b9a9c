"""Jellyfin's REST API and websocket, with an API key (it sees everybody) or a person's own token.

Sessions are in the server's memory and gone after its restart; user data is in its database. The server moves a
session's PositionTicks on by itself ten seconds after the client's last word, LastPlaybackCheckIn.

The websocket takes the token from the same header. Who is no administrator may not subscribe to sessions: the server
then ends the connection. A key is nobody, so it hears of no user data. Seen in the server's source, 10.8 to 10.10
(WebSocketManager, SessionWebSocketListener, SessionInfoWebSocketListener, AuthorizationContext).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from streams.runtime.json_text import BadJson, load
from streams.upstream.errors import BadAnswer, NotAllowed, NotOffered
from streams.upstream.http import Upstream
from streams.upstream.sockets import Socket

Json: TypeAlias = dict[str, Any]
PAGE: Final = 200
LIBRARY_PAGE: Final = 50
"""Each item tells every stream of every version of it: some ten KB, seldom a hundred."""
PAGES_MAX: Final = 2_000
_USERS: Final = "/Users"
_GUID = re.compile(r"[0-9a-f]{32}")
KEEP_ALIVE_S: Final = 30.0
"""So often the server is told that somebody listens, unless it wants to hear it more often."""
_KEEP_ALIVE: Final = '{"MessageType":"KeepAlive"}'
_SUBSCRIBE: Final = json.dumps({"MessageType": "SessionsStart", "Data": "0,1500"})
_TYPES: Final = "Movie,Episode,Video,MusicVideo,Audio,AudioBook,Recording,Trailer"


def headers(token: str) -> dict[str, str]:
    """What each request carries. The token must hold no quote."""
    return {"Authorization": f'MediaBrowser Token="{token}", Client="playhead", Device="playhead", DeviceId="playhead"'}


@dataclass(frozen=True, slots=True)
class Sessions:
    """``now_ms``: the server's clock when it answered, None when it did not tell."""

    entries: list[Json]
    now_ms: int | None


@dataclass(frozen=True, slots=True)
class Message:
    """What the server says by itself. ``kind`` "": it can't be read."""

    kind: str
    data: Any = None


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

    async def may_hear_sessions(self) -> bool:
        """Whether the websocket takes a subscription to sessions: of keys and administrators."""
        try:
            me = (await self._upstream.get(f"{_USERS}/Me")).value
        except (NotOffered, BadAnswer):
            return True  # a key is nobody
        policy = me.get("Policy") if isinstance(me, dict) else None
        return isinstance(policy, dict) and policy.get("IsAdministrator") is True

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

    async def library_page(self, offset: int, user: str | None) -> tuple[list[Json], int | None]:
        """At most LIBRARY_PAGE items of the whole library from ``offset`` on, and how many there are; as a person sees
        it, or a key (None)."""
        who = [("userId", user)] if user is not None else []
        answer = await self._upstream.get(
            "/Items",
            [
                *who,
                ("startIndex", str(offset)),
                ("limit", str(LIBRARY_PAGE)),
                ("recursive", "true"),
                ("includeItemTypes", _TYPES),
                ("fields", "Path,ProviderIds,MediaSources,Etag,DateCreated,DateLastSaved"),
                ("sortBy", "DateCreated,SortName"),
                ("enableUserData", "false"),
                ("enableImages", "false"),
                ("enableTotalRecordCount", "true"),
            ],
        )
        document = answer.value if isinstance(answer.value, dict) else {}
        items, total = document.get("Items"), document.get("TotalRecordCount")
        if not isinstance(items, list):
            raise BadAnswer("the server's answer has no list of Items")
        return [item for item in items if isinstance(item, dict)], total if isinstance(total, int) else None

    async def library_reader(self) -> str | None:
        """As whom the library is read: None for a key, else the token's own person."""
        try:
            me = (await self._upstream.get(f"{_USERS}/Me")).value
        except (NotOffered, BadAnswer):
            return None
        return me["Id"] if isinstance(me, dict) and isinstance(me.get("Id"), str) else None

    async def user_data(self, user: str, item: str) -> Json:
        """The person's data of one item. ``item``: a guid, for it becomes part of an address."""
        if not _GUID.fullmatch(item):
            raise NotAllowed("no guid")
        answer = await self._upstream.get(f"/UserItems/{item}/UserData", [("userId", user)])
        return answer.value if isinstance(answer.value, dict) else {}

    async def set_user_data(self, user: str, item: str, data: Json) -> None:
        """Put these of the person's data of one item in place of what there is: the others stay (10.9 and later)."""
        if not _GUID.fullmatch(item):
            raise NotAllowed("no guid")
        await self._upstream.send("POST", f"/UserItems/{item}/UserData", [("userId", user)], body=data)

    @asynccontextmanager
    async def listen(self, *, sessions: bool) -> AsyncIterator[AsyncIterator[Message]]:
        """What the server says from now on; with ``sessions`` subscribed to what devices do. Both raise UpstreamError,
        the messages when the connection ends."""
        async with self._upstream.socket("/socket") as connection:
            if sessions:
                await connection.send(_SUBSCRIBE)
            yield _messages(connection)

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


async def _messages(connection: Socket) -> AsyncIterator[Message]:
    now = asyncio.get_running_loop().time
    every_s = KEEP_ALIVE_S
    due = now() + every_s
    while True:
        if now() >= due:
            await connection.send(_KEEP_ALIVE)
            due = now() + every_s
        text = await connection.receive(within_s=due - now())
        if text is None:
            continue
        message = _message(text)
        match message.kind, message.data:
            case "ForceKeepAlive", int(timeout_s) if timeout_s > 0:
                every_s = min(max(timeout_s / 2, 1.0), KEEP_ALIVE_S)
                due = now()
            case (("ForceKeepAlive" | "KeepAlive"), _):
                pass
            case _:
                yield message


def _message(text: str) -> Message:
    try:
        value = load(text)
    except BadJson:
        return Message("")
    kind = value.get("MessageType") if isinstance(value, dict) else None
    return Message(kind, value.get("Data")) if isinstance(kind, str) else Message("")
