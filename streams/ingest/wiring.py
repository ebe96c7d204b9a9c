"""The door and what it stands on, put together from settings. Nothing connects before it is entered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

from streams.ingest.door import Door
from streams.ingest.media import Media
from streams.ingest.people import People
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.contract import Contract
from streams.runtime.database import Database
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.people import PostgresAliases, PostgresPeople, PostgresSources
from streams.runtime.publisher import KafkaPublisher
from streams.runtime.settings import Settings
from streams.runtime.tokens import Authenticator, PostgresTokens
from streams.runtime.web import Check, Guard


class Ingest:
    """``door``, ``guard`` and ``checks`` of a process that takes reports; enter it before requests come.

    Made from settings without connecting, so that an application can be built around it. Raises
    ConfigurationError when a secret it needs is not set. Entering succeeds with Kafka or PostgreSQL away:
    requests are then answered 503 until they are back.
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
        )
        self.door = Door(
            contract=contract,
            publisher=self.publisher,
            people=People(PostgresPeople(self.database), self.publisher, settings.identity.key(), clock),
            media=Media(PostgresAliases(self.database), clock),
            sources=PostgresSources(self.database),
            clock=clock,
            failpoint=failpoint,
        )
        self.checks: Mapping[str, Check] = {"kafka": self.publisher.probe, "postgres": self.database.probe}
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(self.database)
        await self._open.enter_async_context(self.publisher)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._open.aclose()


@asynccontextmanager
async def make_door(
    settings: Settings, contract: Contract, clock: Clock | None = None, failpoint: Failpoint = disarmed
) -> AsyncIterator[Door]:
    """An open door, for those who need nothing else of Ingest."""
    async with Ingest(settings, contract, clock, failpoint) as ingest:
        yield ingest.door
