"""A server's push channel kept open: what it says rings the bell, and so does each connection that opens.

    connect ─► ring: what happened meanwhile is unknown ─► ring at news … ─► it ends ─► back-off ─► connect

A connection that breaks is made again after a back-off like that of polls, no sooner than polls would be; one that the
server refuses is tried every SELDOM_S. Polling goes on at its interval either way, so nothing depends on this.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from streams.ingest.pollers.backoff import BACKOFF_S_MAX, Chance, back_off_s
from streams.ingest.pollers.lists import ServerPoller
from streams.ingest.pollers.news import Bell, News
from streams.runtime import logs, metrics
from streams.runtime.upstreams import UpstreamEntry
from streams.upstream.errors import CredentialsRefused, NotAllowed, NotOffered, UpstreamAway, UpstreamError

SELDOM_S: Final = 1_800.0
STEADY_S: Final = 60.0
"""A connection that held so long was a good one."""

_log = logs.get(__name__)


class Listener:
    """Of one poller. ``up``: whether its channel is open now; None: the server has none."""

    def __init__(self, entry: UpstreamEntry, poller: ServerPoller, bell: Bell, chance: Chance) -> None:
        self._entry = entry
        self._poller = poller
        self._bell = bell
        self._chance = chance
        self.up: bool | None = None

    async def run(self) -> None:
        """Listen until cancelled, which closes the connection at once. Returns where there is no channel."""
        failures = 0
        while (news := self._poller.news()) is not None:
            began = asyncio.get_running_loop().time()
            exc = await self._hear(news)
            held_s = asyncio.get_running_loop().time() - began
            failures = 1 if held_s >= STEADY_S else failures + 1
            metrics.POLL_SOCKETS_ENDED.labels(self._entry.kind, exc.cause).inc()
            wait_s = wait_after(exc, failures, float(self._entry.interval_s), self._chance)
            _log.warning(
                "no push channel",
                source=self._entry.source_id,
                cause=exc.cause,
                held_s=round(held_s),
                next_in_s=round(wait_s),
            )
            await asyncio.sleep(wait_s)

    async def _hear(self, news: AsyncGenerator[News, None]) -> UpstreamError:
        """Ring at everything until the connection ends; returns why it did."""
        self.up = False
        open_now = metrics.POLL_SOCKETS.labels(self._entry.kind)
        try:
            async with aclosing(news):
                async for one in news:
                    if not self.up:
                        self.up = True
                        open_now.inc()
                        _log.info("push channel open", source=self._entry.source_id)
                    self._bell.ring(self._poller, one)
            return UpstreamAway("the server says nothing more")
        except UpstreamError as exc:
            return exc
        finally:
            if self.up:
                open_now.dec()
            self.up = False


def wait_after(exc: UpstreamError, failures: int, interval_s: float, chance: Chance) -> float:
    """Seconds until a channel that ended so is tried again; ``failures``: in a row.

    No sooner than the interval of polls, but where that is longer than BACKOFF_S_MAX.
    """
    if isinstance(exc, NotOffered | CredentialsRefused | NotAllowed):
        return SELDOM_S * chance(0.9, 1.1)
    asked_s = exc.retry_after_s if isinstance(exc, UpstreamAway) else None
    return back_off_s(failures, interval_s, chance, least_s=min(interval_s, BACKOFF_S_MAX), asked_s=asked_s)


def state_of(listeners: Sequence[Listener]) -> str | None:
    """Of all channels of a source: "open", "away" when one is not, None when there is none."""
    states = {listener.up for listener in listeners} - {None}
    return None if not states else "open" if states == {True} else "away"
