"""Plex Media Server, with the owner's token: what plays now, and the history of everybody's plays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, TypeAlias

from streams.upstream.errors import BadAnswer
from streams.upstream.http import Upstream

Json: TypeAlias = dict[str, Any]
PAGE: Final = 200
PAGES_MAX: Final = 1_000


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


def _name(entry: Json) -> str:
    return str(entry.get("historyKey") or (entry.get("ratingKey"), entry.get("accountID"), entry.get("viewedAt")))


def _objects(document: object) -> list[Json]:
    container = document.get("MediaContainer") if isinstance(document, dict) else None
    if not isinstance(container, dict):
        raise BadAnswer("the server's answer is no MediaContainer")
    items = container.get("Metadata", [])
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
