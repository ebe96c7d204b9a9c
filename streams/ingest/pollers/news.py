"""What a server's push channel is to the schedule: a bell. It says where to look, never what is there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streams.ingest.pollers.lists import ServerPoller


@dataclass(frozen=True, slots=True)
class News:
    """Something changed, in some of these lists (by name); without lists nobody knows where."""

    lists: frozenset[str] = frozenset()

    def and_also(self, other: News) -> News:
        """News of both."""
        return News(self.lists | other.lists) if self.lists and other.lists else EVERYTHING

    def concerns(self, listing: str) -> bool:
        return not self.lists or listing in self.lists


EVERYTHING: Final = News()


class Bell:
    """News by poller, gathered until somebody takes it: however often it is rung, there is one of each."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self._news: dict[ServerPoller, News] = {}

    def ring(self, poller: ServerPoller, news: News) -> None:
        before = self._news.get(poller)
        self._news[poller] = news if before is None else before.and_also(news)
        self._rung.set()

    async def rung(self, within_s: float) -> None:
        """Return when there is news, after ``within_s`` seconds at the latest."""
        try:
            async with asyncio.timeout(within_s):
                await self._rung.wait()
        except TimeoutError:
            return

    def take(self) -> dict[ServerPoller, News]:
        """All there is; then there is none."""
        self._rung.clear()
        news, self._news = self._news, {}
        return news
