"""Sessions with the servers that are told of progress: kept from task to task, each with its circuit and its rate.

All of it lives on one event loop in a thread of its own; tasks are threads and wait for what they ask of it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeVar

from streams.effects.forward.ports import Server
from streams.effects.forward.servers import server_of
from streams.effects.kinds import NotNow
from streams.runtime.clock import Clock
from streams.runtime.rates import Rates
from streams.runtime.upstreams import Account, UpstreamEntry
from streams.upstream.http import Limits, Upstream

AT_ONCE: Final = 2
"""Tasks of one server: a slow one never takes all places."""
PER_S: Final = 5.0
BUSY_S: Final = 0.5
LIMITS: Final = Limits(timeout_s=8.0, attempts=1, rest_s=15.0)
"""A call ends long before a lease does. Nothing is tried again here: the task asks first."""
T = TypeVar("T")


@dataclass(slots=True)
class _Session:
    """``made_of``: what it is of; another entry or secret is another session."""

    made_of: tuple[object, ...]
    servers: dict[str, tuple[Upstream, Server]] = field(default_factory=dict)


class Sessions:
    """Use as a context manager. Safe for threads."""

    def __init__(self, clock: Clock, *, limits: Limits = LIMITS, per_s: float = PER_S, at_once: int = AT_ONCE) -> None:
        self._clock = clock
        self._limits = limits
        self._rates = Rates(clock, per_s)
        self._at_once = at_once
        self._busy: Counter[str] = Counter()
        self._sessions: dict[str, _Session] = {}
        self._kept = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="forward-io", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What ``work`` returns, done on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @contextmanager
    def turn(self, source_id: str) -> Iterator[None]:
        """While one may ask this server. Raises NotNow when others do already, or too many did."""
        with self._kept:
            if self._busy[source_id] >= self._at_once:
                raise NotNow("others are telling this server", BUSY_S)
            self._busy[source_id] += 1
        try:
            wait_s = self.run(self._take(source_id))
            if wait_s:
                raise NotNow("this server was told enough for now", float(wait_s))
            yield
        finally:
            with self._kept:
                self._busy[source_id] -= 1

    def server_for(self, entry: UpstreamEntry, user: str) -> Server | None:
        """A session as somebody who may speak for the person there; None: no such secret is known.

        Raises UpstreamError, ConfigurationError.
        """
        return self.run(self._server_for(entry, user))

    async def _take(self, source_id: str) -> int:
        return self._rates.take(source_id)

    async def _server_for(self, entry: UpstreamEntry, user: str) -> Server | None:
        # The person's own account first, if it has the person's name.
        for account in sorted(entry.accounts, key=lambda account: (account.name != user, account.name)):
            server = await self._server(entry, account)
            if await server.speaks_for(user):
                return server
        return None

    async def _server(self, entry: UpstreamEntry, account: Account) -> Server:
        secret = account.reveal()
        made_of = (entry.kind, entry.url, entry.verify_tls)
        session = self._sessions.get(entry.source_id)
        if session is None or session.made_of != made_of:
            await self._end(entry.source_id)
            session = self._sessions[entry.source_id] = _Session(made_of)
        name = f"{account.name}\0{account.login}\0{secret}"
        if name not in session.servers:
            session.servers[name] = server_of(entry, account, secret, self._limits, self._clock)
        return session.servers[name][1]

    async def _end(self, source_id: str) -> None:
        session = self._sessions.pop(source_id, None)
        for upstream, _ in session.servers.values() if session else ():
            await upstream.__aexit__()

    async def _close(self) -> None:
        for source_id in list(self._sessions):
            await self._end(source_id)
