"""Plex Media Server: what plays now, and the history of everybody's plays, with the owner's token; and what is written,
as the person whose token it is. Writes are GETs, and answer nothing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Final, TypeAlias

from streams.upstream.errors import BadAnswer, NotAllowed, NotOffered
from streams.upstream.http import Upstream

Json: TypeAlias = dict[str, Any]
PAGE: Final = 200
PAGES_MAX: Final = 1_000
_LIBRARY: Final = "com.plexapp.plugins.library"
_KEY = re.compile(r"[0-9]{1,20}")


def headers(token: str) -> dict[str, str]:
    """What each request carries."""
    return {"X-Plex-Token": token, "X-Plex-Client-Identifier": "playhead", "X-Plex-Product": "playhead"}


class Plex:
    """Every method raises UpstreamError."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def sessions(self) -> list[Json]:
        """What plays now: an item with its viewOffset, User, Player and Session."""
        return _objects((await self._upstream.get("/status/sessions")).value)

    async def history(self) -> AsyncIterator[list[Json]]:
        """Plays that were finished, page by page, newest first; ends at a page that brings nothing new."""
        seen: set[str] = set()
        for page in range(PAGES_MAX):
            answer = await self._upstream.get(
                "/status/sessions/history/all",
                [
                    ("sort", "viewedAt:desc"),
                    ("X-Plex-Container-Start", str(page * PAGE)),
                    ("X-Plex-Container-Size", str(PAGE)),
                ],
            )
            found = _objects(answer.value)
            fresh = [entry for entry in found if _name(entry) not in seen]
            if not fresh:
                return
            seen.update(_name(entry) for entry in fresh)
            yield fresh
            if len(found) < PAGE:
                return

    async def item(self, key: str) -> Json:
        """An item with the person's view of it: viewOffset, viewCount, lastViewedAt."""
        found = _objects((await self._upstream.get(f"/library/metadata/{_checked(key)}")).value)
        if not found:
            raise NotOffered("the server has no such item")
        return found[0]

    async def set_position(self, key: str, position_ms: int) -> None:
        await self._write("progress", ("key", _checked(key)), ("time", str(position_ms)), ("state", "stopped"))

    async def scrobble(self, key: str) -> None:
        """One more view, now."""
        await self._write("scrobble", ("key", _checked(key)))

    async def unscrobble(self, key: str) -> None:
        """Not viewed, and no place to resume."""
        await self._write("unscrobble", ("key", _checked(key)))

    async def _write(self, call: str, *params: tuple[str, str]) -> None:
        await self._upstream.send("GET", f"/:/{call}", [("identifier", _LIBRARY), *params])


def _checked(key: str) -> str:
    """It becomes part of an address."""
    if not _KEY.fullmatch(key):
        raise NotAllowed("no rating key")
    return key


def _name(entry: Json) -> str:
    return str(entry.get("historyKey") or (entry.get("ratingKey"), entry.get("accountID"), entry.get("viewedAt")))


def _objects(document: object) -> list[Json]:
    container = document.get("MediaContainer") if isinstance(document, dict) else None
    if not isinstance(container, dict):
        raise BadAnswer("the server's answer is no MediaContainer")
    items = container.get("Metadata", [])
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
