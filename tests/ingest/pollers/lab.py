"""A source polled through a door in memory, and the rules applied to what comes out of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from fastapi import FastAPI

from schemas.events import PlaybackReported
from streams.agents.playback import as_report
from streams.domain.playback import Decision, decide
from streams.domain.state import State
from streams.ingest.pollers import Result, Source
from streams.runtime.polls import Key, Seen
from streams.runtime.upstreams import Account, UpstreamEntry
from streams.upstream.http import Limits
from tests.ingest.fakes import HASH_KEY, FakeDatabase, World
from tests.ingest.pollers.servers.running import running

T = TypeVar("T")
QUICK = Limits(timeout_s=10, attempts=1, rest_s=0)
MINUTE = 60_000


@dataclass
class FakePolls:
    """The PollStore in memory."""

    database: FakeDatabase = field(default_factory=FakeDatabase)
    rows: dict[Key, Seen] = field(default_factory=dict)
    health: dict[str, tuple[str | None, int, float | None]] = field(default_factory=dict)
    swept: set[str] = field(default_factory=set)
    channels: dict[str, str | None] = field(default_factory=dict)

    async def seen(self, source_id: str, keys: Collection[Key]) -> Mapping[Key, Seen]:
        self.database.ask()
        return {key: self.rows[key] for key in keys if key in self.rows}

    async def seen_in(self, source_id: str, facet: str) -> Mapping[Key, Seen]:
        self.database.ask()
        return {key: seen for key, seen in self.rows.items() if key.facet == facet}

    async def keep(self, source_id: str, seen: Mapping[Key, Seen | None]) -> None:
        self.database.ask()
        for key, value in seen.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    async def sweep_is_due(self, source_id: str, after_s: float) -> bool:
        self.database.ask()
        return source_id not in self.swept

    async def fared(
        self, source_id: str, *, cause: str | None, swept: bool, next_in_s: float | None, channel: str | None = None
    ) -> int:
        self.database.ask()
        self.channels[source_id] = channel
        _, failures, _ = self.health.get(source_id, (None, 0, None))
        failures = 0 if cause is None else failures + 1
        self.health[source_id] = (cause, failures, next_in_s)
        if swept:
            self.swept.add(source_id)
        return failures

    async def put_off(self, source_id: str, next_in_s: float) -> None:
        cause, failures, _ = self.health[source_id]
        self.health[source_id] = (cause, failures, next_in_s)


class Lab:
    """``home`` is polled. ``poll()`` returns what it added to the log, ``decisions()`` what the rules say of all."""

    def __init__(self) -> None:
        self.world = World()
        self.clock = self.world.clock
        self.store = FakePolls()
        self.source: Source
        self.entry: UpstreamEntry
        self.last: Result

    @asynccontextmanager
    async def polling(self, app: FastAPI, kind: str, *accounts: Account) -> AsyncIterator[None]:
        async with running(app) as url:
            self.entry = UpstreamEntry("home", kind, url, 30, True, accounts)
            async with self.another_poller() as self.source:
                yield

    def another_poller(self) -> Source:
        """A poller of a process that knows nothing but the tables."""
        return Source(self.entry, self.world.door, self.store, HASH_KEY, self.clock, limits=QUICK, chance=max)

    async def poll(self, *, sweep: bool | None = None, source: Source | None = None) -> list[PlaybackReported]:
        before = len(self.world.reported())
        self.last = await (source or self.source).poll(sweep=sweep)
        return self.world.reported()[before:]

    async def poll_as_new(self, *, sweep: bool = True) -> list[PlaybackReported]:
        """After a restart."""
        async with self.another_poller() as source:
            return await self.poll(sweep=sweep, source=source)

    def forget(self) -> None:
        """The memory of polls is lost."""
        self.store.rows.clear()

    def decisions(self) -> list[tuple[PlaybackReported, Decision]]:
        return fold(self.world.reported())

    def states(self) -> dict[str | None, State]:
        """The state after everything, by the server's id of the media (of one person)."""
        return {event.upstream_media: decision.state for event, decision in self.decisions() if decision.state}


def fold(events: list[PlaybackReported]) -> list[tuple[PlaybackReported, Decision]]:
    states: dict[tuple[str, str], State] = {}
    found = []
    for event in events:
        key = (event.user_ref, event.media_id)
        decision = decide(states.get(key), as_report(event, event.received_at))
        if decision.state is not None:
            states[key] = decision.state
        found.append((event, decision))
    return found


def summary(events: list[PlaybackReported]) -> list[tuple[str | None, str, int | None]]:
    """(media, kind, position) of each."""
    return [(event.upstream_media, event.kind, event.position_ms) for event in events]


def scene(play: Callable[[Lab], Awaitable[T]]) -> T:
    async def run() -> T:
        return await play(Lab())

    return asyncio.run(run())
