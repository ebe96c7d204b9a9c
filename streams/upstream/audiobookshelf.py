"""Audiobookshelf, as the person sees it whose API key or token is used.

Seen on version 2.36: `/api/me` and `/api/me/progress` tell the same progress; ten writers at once leave several rows
for one item; sessions come newest first, and a page past the end is empty. Its Socket.IO takes an event ``auth`` with
the token and answers ``init``; ``user_updated`` holds the whole user, token included.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

from streams.upstream import socketio
from streams.upstream.errors import BadAnswer, CredentialsRefused, NotAllowed, NotOffered, UpstreamAway
from streams.upstream.http import NotModified, Upstream
from streams.upstream.socketio import Event
from streams.upstream.sockets import Socket

Json: TypeAlias = dict[str, Any]
PAGE: Final = 100
PAGES_MAX: Final = 1_000
LOG_IN_S: Final = 20.0
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def headers(token: str) -> dict[str, str]:
    """What each request carries."""
    return {"Authorization": f"Bearer {token}"}


class Audiobookshelf:
    """Every method raises UpstreamError."""

    def __init__(self, upstream: Upstream, token: str) -> None:
        self._upstream = upstream
        self._token = token

    async def progress(self) -> list[Json] | NotModified:
        """All progress objects of the person, in no order."""
        answer = await self._upstream.get_changed("/api/me/progress")
        return answer if isinstance(answer, NotModified) else _objects(answer.value, "mediaProgress")

    async def me(self) -> str:
        """Id of the person."""
        answer = await self._upstream.get("/api/me")
        found = answer.value.get("id") if isinstance(answer.value, dict) else None
        if not isinstance(found, str):
            raise BadAnswer("the server's answer names no user")
        return found

    async def progress_of(self, media: str) -> Json:
        """The person's progress object of ``item`` or ``item/episode``; empty when there is none, or no such item."""
        try:
            answer = await self._upstream.get(_progress_path(media))
        except NotOffered:
            return {}
        return answer.value if isinstance(answer.value, dict) else {}

    async def set_progress(self, media: str, changes: Json) -> None:
        """Change fields of the progress object. NotOffered when there is no such item."""
        await self._upstream.send("PATCH", _progress_path(media), body=changes)

    async def sessions(self) -> AsyncIterator[list[Json]]:
        """Listening sessions page by page, newest first; ends at a page that brings nothing new."""
        seen: set[str] = set()
        for page in range(PAGES_MAX):
            answer = await self._upstream.get(
                "/api/me/listening-sessions", [("itemsPerPage", str(PAGE)), ("page", str(page))]
            )
            found = _objects(answer.value, "sessions")
            fresh = [session for session in found if str(session.get("id")) not in seen]
            if not fresh:
                return
            seen.update(str(session.get("id")) for session in fresh)
            yield fresh
            if len(found) < PAGE:
                return

    async def libraries(self) -> list[str]:
        """Ids of the libraries this person may see."""
        found = _objects((await self._upstream.get("/api/libraries")).value, "libraries")
        return [one["id"] for one in found if isinstance(one.get("id"), str) and _ID.fullmatch(one["id"])]

    async def library_page(self, library: str, page: int) -> tuple[list[Json], int | None]:
        """At most PAGE items of a library, and how many it has; minified, for the long form tells every file."""
        answer = await self._upstream.get(
            f"/api/libraries/{_checked(library)}/items",
            [("limit", str(PAGE)), ("page", str(page)), ("sort", "addedAt"), ("minified", "1")],
        )
        total = answer.value.get("total") if isinstance(answer.value, dict) else None
        return _objects(answer.value, "results"), total if isinstance(total, int) else None

    async def item(self, identifier: str) -> Json:
        """One item with its files, chapters and episodes."""
        answer = await self._upstream.get(f"/api/items/{_checked(identifier)}", [("expanded", "1")])
        if not isinstance(answer.value, dict):
            raise BadAnswer("the server's answer is no item")
        return answer.value

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[AsyncIterator[Event]]:
        """What the server tells the person from now on. Both raise UpstreamError, the events when the connection
        ends."""
        async with self._upstream.socket("/socket.io/", socketio.PARAMS) as connection:
            events = socketio.events(connection)
            try:
                async with asyncio.timeout(LOG_IN_S):
                    await self._log_in(connection, events)
            except TimeoutError:
                raise UpstreamAway("the server does not say whether it takes the token") from None
            yield events

    async def _log_in(self, connection: Socket, events: AsyncIterator[Event]) -> None:
        async for event in events:
            match event.name:
                case socketio.ENTERED:
                    await connection.send(socketio.event("auth", self._token))
                case "init":
                    return
                case "invalid_token" | "auth_failed":
                    raise CredentialsRefused("the server takes no such token")


def _progress_path(media: str) -> str:
    item, _, episode = media.partition("/")
    return f"/api/me/progress/{_checked(item)}" + (f"/{_checked(episode)}" if episode else "")


def _checked(identifier: str) -> str:
    """It becomes part of an address."""
    if not _ID.fullmatch(identifier):
        raise NotAllowed("no id")
    return identifier


def _objects(document: object, name: str) -> list[Json]:
    items = document.get(name) if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise BadAnswer(f"the server's answer has no list of {name}")
    return [item for item in items if isinstance(item, dict)]
