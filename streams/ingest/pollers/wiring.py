"""Polling put together from settings: the same door as the hooks', and the tables beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from streams.ingest.pollers.schedule import Report, Scheduler, Source
from streams.ingest.wiring import Ingest
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.contract import Contract
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.polls import PollStore, PostgresPolls
from streams.runtime.settings import PollSettings, Settings
from streams.runtime.upstreams import PostgresUpstreams, UpstreamEntry, Upstreams


@dataclass(frozen=True, slots=True)
class Polling:
    upstreams: Upstreams
    store: PollStore
    ingest: Ingest
    hash_key: bytes
    clock: Clock
    settings: PollSettings

    def source(self, entry: UpstreamEntry) -> Source:
        """To be polled by hand; enter it."""
        return Source(entry, self.ingest.door, self.store, self.hash_key, self.clock)

    def scheduler(self, on_result: Report | None = None) -> Scheduler:
        return Scheduler(
            self.upstreams,
            self.ingest.door,
            self.store,
            self.hash_key,
            self.clock,
            on_result=on_result,
            sockets=self.settings.sockets,
            news_every_s=self.settings.news_every_s,
        )


@asynccontextmanager
async def make_polling(
    settings: Settings, contract: Contract, clock: Clock | None = None, failpoint: Failpoint = disarmed
) -> AsyncIterator[Polling]:
    """Open as long as it is entered. Raises ConfigurationError when a secret is not set."""
    clock = clock or SystemClock()
    async with Ingest(settings, contract, clock, failpoint) as ingest:
        yield Polling(
            PostgresUpstreams(ingest.database),
            PostgresPolls(ingest.database),
            ingest,
            settings.identity.key(),
            clock,
            settings.poll,
        )
