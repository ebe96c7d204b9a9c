"""The ledger of what was written to media servers, so that it is known when it comes back.

    forwarder:  sent() commits a row ── writes to the server
    door:       returning() says which reports bring such a value ── acknowledged as echoes ── returned()

A value can come back by two ways, a hook and a poll, and by each of them once: a row serves one report of each. A
report that is sent again because its acknowledgement got lost is found again, for the row is marked after it only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

import xxhash

from streams.runtime.database import Connection, Database

Way: TypeAlias = Literal["hook", "poll"]
WAYS: Final[tuple[Way, ...]] = ("hook", "poll")
EXPIRY_S: Final = 600.0
SLACK_S: Final = 1
"""Servers keep whole seconds, cut or rounded: a position comes back up to so much beside what was written."""
_SIGN: Final = 2**63


@dataclass(frozen=True, slots=True)
class Value:
    """What a server was told, as it can tell it again: a position, or that an item is played or not played."""

    position_ms: int | None = None
    played: bool | None = None

    def hashes(self, source_id: str, user_ref: str, media_id: str, *, slack_s: int = 0) -> list[int]:
        """What stands for the value in the ledger; with slack, of its neighbours too, the exact one first."""
        if self.played is not None or self.position_ms is None:
            texts = [f"played:{self.played}"]
        else:
            second = self.position_ms // 1000
            near = sorted(range(max(0, second - slack_s), second + slack_s + 1), key=lambda at: abs(at - second))
            texts = [f"at:{at}" for at in near]
        numbers = [
            xxhash.xxh3_64_intdigest("\0".join((source_id, user_ref, media_id, text)).encode()) for text in texts
        ]
        return [number - 2 * _SIGN if number >= _SIGN else number for number in numbers]


@dataclass(frozen=True, slots=True)
class Back:
    """A report that may be an echo: who and what it is about, and what it says."""

    user_ref: str
    media_id: str
    value: Value


class Ledger(Protocol):
    """All methods raise DatabaseAway."""

    async def sent(
        self, source_id: str, user_ref: str, media_id: str, value: Value, expiry_s: float = EXPIRY_S
    ) -> None:
        """Commit that ``value`` is about to be written to the source's server. Before it is."""
        ...

    async def returning(self, source_id: str, way: Way, reports: Sequence[Back]) -> Mapping[int, int]:
        """Place in ``reports`` → row, of those that bring back what was sent and has not come back this way."""
        ...

    async def returned(self, way: Way, rows: Collection[int]) -> None:
        """The reports of these rows are in the log, as echoes. Rows that need be kept no longer are deleted."""
        ...


class PostgresLedger:
    """The Ledger over core.forward_sent."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def sent(
        self, source_id: str, user_ref: str, media_id: str, value: Value, expiry_s: float = EXPIRY_S
    ) -> None:
        (value_hash,) = value.hashes(source_id, user_ref, media_id)

        async def work(connection: Connection) -> None:
            await connection.execute(
                "INSERT INTO core.forward_sent (source_id, user_ref, media_id, value_hash, expires_at)"
                " VALUES (%s, %s, %s, %s, now() + make_interval(secs => %s))",
                (source_id, user_ref, media_id, value_hash, expiry_s),
            )

        await self._database.run(work)

    async def returning(self, source_id: str, way: Way, reports: Sequence[Back]) -> Mapping[int, int]:
        wanted = [back.value.hashes(source_id, back.user_ref, back.media_id, slack_s=SLACK_S) for back in reports]

        async def ask(connection: Connection) -> list[tuple[int, int]]:
            cursor = await connection.execute(
                "SELECT id, value_hash FROM core.forward_sent WHERE source_id = %s AND user_ref = ANY(%s)"
                " AND media_id = ANY(%s) AND value_hash = ANY(%s) AND NOT %s = ANY(returned) AND expires_at > now()"
                " ORDER BY id",
                (
                    source_id,
                    sorted({back.user_ref for back in reports}),
                    sorted({back.media_id for back in reports}),
                    sorted({value_hash for hashes in wanted for value_hash in hashes}),
                    way,
                ),
            )
            return [(row[0], row[1]) for row in await cursor.fetchall()]

        rows = await self._database.run(ask) if reports else []
        found: dict[int, int] = {}
        for place, hashes in enumerate(wanted):
            match = next(((row, h) for value_hash in hashes for row, h in rows if h == value_hash), None)
            if match is not None:
                rows.remove(match)
                found[place] = match[0]
        return found

    async def returned(self, way: Way, rows: Collection[int]) -> None:
        ids = sorted(rows)

        async def work(connection: Connection) -> None:
            await connection.execute(
                "UPDATE core.forward_sent SET returned = returned || %s::text"
                " WHERE id = ANY(%s) AND NOT %s = ANY(returned)",
                (way, ids, way),
            )
            await connection.execute(
                "DELETE FROM core.forward_sent WHERE returned @> %s::text[] AND id = ANY(%s) OR expires_at < now()",
                (list(WAYS), ids),
            )

        if ids:
            await self._database.run(work)
