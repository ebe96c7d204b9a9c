"""What polls have seen and how polled servers fare, kept over restarts.

The seen is a memory, not a truth: written after the reports that follow from it are acknowledged, so it may be lost
or older than the log. Then reports are made again, with the same event ids.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from psycopg.types.json import Jsonb

from streams.runtime.database import Connection, Database
from streams.runtime.tokens import SyncConnection

Seen: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Key:
    """One place of one of a server's lists: whose, which list, which item (or player, or session)."""

    user: str
    facet: str
    item: str


@dataclass(frozen=True, slots=True)
class Health:
    """How a source's polling fares. ``cause``: class of the last error; times are of the database's clock.

    ``channel``: whether its push channel was "open" or "away" at the last poll; None: it has none, or nobody listens.
    """

    source_id: str
    attempted_at: datetime
    succeeded_at: datetime | None
    swept_at: datetime | None
    cause: str | None
    failures: int
    next_at: datetime | None
    channel: str | None


class PollStore(Protocol):
    """All methods raise DatabaseAway; repeating any of them is harmless."""

    async def seen(self, source_id: str, keys: Collection[Key]) -> Mapping[Key, Seen]:
        """What was seen last, of those of which anything was."""
        ...

    async def seen_in(self, source_id: str, facet: str) -> Mapping[Key, Seen]:
        """Everything seen in one list, of everybody."""
        ...

    async def keep(self, source_id: str, seen: Mapping[Key, Seen | None]) -> None:
        """None forgets."""
        ...

    async def sweep_is_due(self, source_id: str, after_s: float) -> bool:
        """Whether everything was last read longer ago than that, or never."""
        ...

    async def fared(
        self, source_id: str, *, cause: str | None, swept: bool, next_in_s: float | None, channel: str | None = None
    ) -> int:
        """Note how a poll went (``cause`` None: well), when the next is, and how the push channel was; returns
        failures in a row."""
        ...

    async def put_off(self, source_id: str, next_in_s: float) -> None:
        """The next poll is then."""
        ...


class PostgresPolls:
    """The PollStore over core.poll_state and core.poll_health."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def seen(self, source_id: str, keys: Collection[Key]) -> Mapping[Key, Seen]:
        wanted = list(keys)

        async def ask(connection: Connection) -> dict[Key, Seen]:
            cursor = await connection.execute(
                "SELECT s.upstream_user, s.facet, s.item, s.seen FROM core.poll_state s"
                " JOIN unnest(%s::text[], %s::text[], %s::text[]) AS k (upstream_user, facet, item)"
                " USING (upstream_user, facet, item) WHERE s.source_id = %s",
                ([k.user for k in wanted], [k.facet for k in wanted], [k.item for k in wanted], source_id),
            )
            return {Key(row[0], row[1], row[2]): row[3] for row in await cursor.fetchall()}

        return await self._database.run(ask) if wanted else {}

    async def seen_in(self, source_id: str, facet: str) -> Mapping[Key, Seen]:
        async def ask(connection: Connection) -> dict[Key, Seen]:
            cursor = await connection.execute(
                "SELECT upstream_user, facet, item, seen FROM core.poll_state WHERE source_id = %s AND facet = %s",
                (source_id, facet),
            )
            return {Key(row[0], row[1], row[2]): row[3] for row in await cursor.fetchall()}

        return await self._database.run(ask)

    async def keep(self, source_id: str, seen: Mapping[Key, Seen | None]) -> None:
        # Sorted: two polls of one source that keep the same places in another order would wait for each other.
        order = sorted(seen, key=lambda key: (key.user, key.facet, key.item))
        kept = [key for key in order if seen[key] is not None]
        gone = [key for key in order if seen[key] is None]

        async def work(connection: Connection) -> None:
            await connection.execute(
                "INSERT INTO core.poll_state (source_id, upstream_user, facet, item, seen)"
                " SELECT %s, * FROM unnest(%s::text[], %s::text[], %s::text[], %s::jsonb[])"
                " ON CONFLICT (source_id, upstream_user, facet, item) DO UPDATE SET seen = excluded.seen",
                (source_id, *_columns(kept), [Jsonb(seen[key]) for key in kept]),
            )
            await connection.execute(
                "DELETE FROM core.poll_state s USING unnest(%s::text[], %s::text[], %s::text[])"
                " AS k (upstream_user, facet, item) WHERE s.source_id = %s AND s.upstream_user = k.upstream_user"
                " AND s.facet = k.facet AND s.item = k.item",
                (*_columns(gone), source_id),
            )

        if order:
            await self._database.run(work)

    async def sweep_is_due(self, source_id: str, after_s: float) -> bool:
        async def ask(connection: Connection) -> bool:
            cursor = await connection.execute(
                "SELECT 1 FROM core.poll_health WHERE source_id = %s AND swept_at > now() - make_interval(secs => %s)",
                (source_id, after_s),
            )
            return await cursor.fetchone() is None

        return await self._database.run(ask)

    async def fared(
        self, source_id: str, *, cause: str | None, swept: bool, next_in_s: float | None, channel: str | None = None
    ) -> int:
        async def work(connection: Connection) -> int:
            cursor = await connection.execute(
                "INSERT INTO core.poll_health AS h"
                " (source_id, attempted_at, succeeded_at, swept_at, cause, failures, next_at, channel)"
                " VALUES (%(source)s, now(), CASE WHEN %(ok)s THEN now() END, CASE WHEN %(swept)s THEN now() END,"
                " %(cause)s, CASE WHEN %(ok)s THEN 0 ELSE 1 END, now() + make_interval(secs => %(next)s),"
                " %(channel)s)"
                " ON CONFLICT (source_id) DO UPDATE SET attempted_at = excluded.attempted_at,"
                " succeeded_at = coalesce(excluded.succeeded_at, h.succeeded_at),"
                " swept_at = coalesce(excluded.swept_at, h.swept_at), cause = excluded.cause,"
                " failures = CASE WHEN %(ok)s THEN 0 ELSE h.failures + 1 END, next_at = excluded.next_at,"
                " channel = excluded.channel"
                " RETURNING failures",
                {
                    "source": source_id,
                    "ok": cause is None,
                    "swept": swept,
                    "cause": cause,
                    "next": next_in_s,
                    "channel": channel,
                },
            )
            row = await cursor.fetchone()
            assert row is not None
            return int(row[0])

        return await self._database.run(work)

    async def put_off(self, source_id: str, next_in_s: float) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(
                "UPDATE core.poll_health SET next_at = now() + make_interval(secs => %s) WHERE source_id = %s",
                (next_in_s, source_id),
            )

        await self._database.run(work)


def list_health(connection: SyncConnection) -> list[Health]:
    """Of every source that was ever polled, by id."""
    rows = connection.execute(
        "SELECT source_id, attempted_at, succeeded_at, swept_at, cause, failures, next_at, channel"
        " FROM core.poll_health ORDER BY source_id"
    ).fetchall()
    return [Health(*row) for row in rows]


def _columns(keys: Collection[Key]) -> tuple[list[str], list[str], list[str]]:
    return [k.user for k in keys], [k.facet for k in keys], [k.item for k in keys]
