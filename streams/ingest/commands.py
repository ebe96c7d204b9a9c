"""Commands of operators by HTTP: into library.commands, acknowledged by all in-sync replicas, or not given at all."""

from __future__ import annotations

from typing import Protocol

from schemas.library import Command
from streams.runtime.clock import Clock
from streams.runtime.commands import command_record, scan_confirmed, scan_requested
from streams.runtime.contract import Contract
from streams.runtime.database import Connection, Database
from streams.runtime.publisher import Publisher


class SourceKinds(Protocol):
    async def kind_of(self, source_id: str) -> str | None:
        """None: no such source. Raises DatabaseAway."""
        ...


class PostgresKinds:
    """The SourceKinds over core.sources."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def kind_of(self, source_id: str) -> str | None:
        async def ask(connection: Connection) -> str | None:
            cursor = await connection.execute("SELECT kind FROM core.sources WHERE source_id = %s", (source_id,))
            row = await cursor.fetchone()
            return None if row is None else str(row[0])

        return await self._database.run(ask)


class Commands:
    """Nothing is spooled: who asks is there to hear that it did not work, and a scan asked for later is no less."""

    def __init__(self, contract: Contract, publisher: Publisher, kinds: SourceKinds, clock: Clock) -> None:
        self.kinds = kinds
        self._contract = contract
        self._publisher = publisher
        self._clock = clock

    async def request_scan(self, source_id: str, *, full: bool, correlation_id: str) -> int:
        """Ask for a scan; its generation. Raises BrokerAway: then it may have been asked for all the same."""
        return await self._give(
            scan_requested(source_id, self._clock, requested_by="operator", full=full, correlation_id=correlation_id)
        )

    async def confirm_scan(self, source_id: str, generation: int, *, correlation_id: str) -> None:
        """Say that a held scan tells the truth. Raises BrokerAway."""
        await self._give(scan_confirmed(source_id, self._clock, generation, correlation_id=correlation_id))

    async def _give(self, command: Command) -> int:
        [place] = await self._publisher.publish([command_record(self._contract, command)])
        return place.offset
