"""Whole libraries of media servers, item by item, from lists that may repeat, reorder or change while they are read.

A list is read page by page. Whatever shows that it was not one list (something twice, a total that moved, a scan of
the server meanwhile) makes it be read again, for what was missed; when it never holds still, the listing is not
complete, and says so. An error is an error, never the end of a list.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import xxhash

from schemas.library import ItemDetails, Locator

Json: TypeAlias = dict[str, Any]
PASSES_MAX: Final = 3
PAGES_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class ServerItem:
    """One playable thing of a server, under its own id there."""

    upstream_id: str
    locator: Locator | None
    details: ItemDetails


@dataclass(slots=True)
class Listed:
    """What is known of a listing so far. ``complete`` is right when it has ended; ``skipped``: what the server lists
    and that is no item, by reason."""

    complete: bool = False
    skipped: dict[str, int] = field(default_factory=dict)
    passes: int = 0

    def skip(self, reason: str) -> None:
        if self.passes <= 1:
            self.skipped[reason] = self.skipped.get(reason, 0) + 1


class Library(Protocol):
    """How one kind of server lists what it has."""

    def once(self, seen: Seen, listed: Listed) -> AsyncIterator[list[ServerItem]]:
        """All items page by page, with ``seen`` told of every one. Raises UpstreamError."""
        ...


class Seen:
    """Ids of a listing, 8 bytes each: which of them are new to it, and whether a pass met one twice."""

    def __init__(self) -> None:
        self._ever: set[int] = set()
        self._now: set[int] = set()
        self.twice = False
        self.moved = False
        """The library says itself that its list changed while it was read."""
        self.fresh = 0

    def begin(self) -> None:
        self._now.clear()
        self.twice = self.moved = False
        self.fresh = 0

    def add(self, identifier: str, *, list_of_its_own: bool = True) -> bool:
        """Whether it is new to the listing. With ``list_of_its_own`` false it may have come before in this pass."""
        key = int(xxhash.xxh3_64_intdigest(identifier.encode("utf-8", "replace")))
        if key in self._now:
            self.twice = self.twice or list_of_its_own
            return False
        self._now.add(key)
        if key in self._ever:
            return False
        self._ever.add(key)
        self.fresh += 1
        return True

    @property
    def now(self) -> int:
        """How many this pass has met."""
        return len(self._now)


async def everything(library: Library, listed: Listed) -> AsyncGenerator[list[ServerItem], None]:
    """Each item once, in pages. Raises UpstreamError; what came until then is not all there is."""
    seen = Seen()
    while listed.passes < PASSES_MAX:
        listed.passes += 1
        seen.begin()
        async for page in library.once(seen, listed):
            yield page
        if not (seen.twice or seen.moved):
            listed.complete = True
            return
