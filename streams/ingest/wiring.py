"""The door and what it stands on, put together from settings. Nothing connects before it is entered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

from streams.ingest.commands import Commands, PostgresKinds
from streams.ingest.door import Door
from streams.ingest.drain import Drain
from streams.ingest.identities import KafkaIdentities
from streams.ingest.media import LibraryFacts, Media
from streams.ingest.people import People
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.contract import Contract
from streams.runtime.database import Database
from streams.runtime.echoes import PostgresLedger
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.people import PostgresAliases, PostgresPeople, PostgresSources
from streams.runtime.publisher import KafkaPublisher
from streams.runtime.rates import Rates
from streams.runtime.settings import Settings
from streams.runtime.spool import Spool
from streams.runtime.tokens import Authenticator, PostgresTokens
from streams.runtime.web import Check, Guard


class Ingest:
    """``door``, ``guard`` and ``checks`` of a process that takes reports; enter it before requests come.

    Made from settings without connecting, so that an application can be built around it. Raises
    ConfigurationError when a secret it needs is not set. Entering succeeds with Kafka or PostgreSQL away:
    reports then go to the spool until they are back, and leave it while this is entered.
    """

    def __init__(
        self, settings: Settings, contract: Contract, clock: Clock | None = None, failpoint: Failpoint = disarmed
    ) -> None:
        clock = clock or SystemClock()
        self.database = Database(settings.postgres.conninfo("door"), clock=clock)
        self.publisher = KafkaPublisher(settings.kafka.client(), timeout_s=settings.http.publish_timeout_s, clock=clock)
        self.guard = Guard(
            Authenticator(PostgresTokens(self.database), clock),
            at_once_max=max(1, settings.http.requests_at_once_max // 2),
            rates=Rates(clock, settings.http.requests_per_token_s),
        )
        self.identities = KafkaIdentities(settings.kafka.client(), clock)
        self.spool = Spool(
            settings.spool_dir, bytes_max=settings.spool.bytes_max, records_max=settings.spool.records_max
        )
        self.door = Door(
            contract=contract,
            publisher=self.publisher,
            people=People(
                PostgresPeople(self.database), self.publisher, settings.identity.key(), clock, self.identities
            ),
            media=Media(PostgresAliases(self.database), clock),
            facts=LibraryFacts(self.database, clock),
            sources=PostgresSources(self.database),
            clock=clock,
            spool=self.spool,
            ledger=PostgresLedger(self.database),
            failpoint=failpoint,
        )
        self.commands = Commands(contract, self.publisher, PostgresKinds(self.database), clock)
        self.drain = Drain(self.spool, self.door.identify, self.publisher, failpoint=failpoint)
        self.checks: Mapping[str, Check] = {"kafka": self.publisher.probe, "postgres": self.database.probe}
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(self.database)
        await self._open.enter_async_context(self.publisher)
        await self._open.enter_async_context(self.identities)
        await self._open.enter_async_context(self.spool)
        await self._open.enter_async_context(_running(self.drain.run()))
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._open.aclose()


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """``work`` as a task while inside, cancelled and awaited at the end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
