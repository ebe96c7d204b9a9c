"""PostgreSQL for the door: short questions with a deadline, or Unavailable; never a hanging request.

A frozen server keeps its sockets open and answers nothing, not even a cancel request. So a question that is
late is left behind (it ends by itself and gives its connection back), and the next ones are refused at once
until one trial gets through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self, TypeVar

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from streams.runtime.circuit import Circuit
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.errors import Unavailable
from streams.runtime.failures import failed
from streams.runtime.quiet import quieted

TIMEOUT_S = 2.0
REST_S = 1.0
CONNECTIONS_MAX = 4
_AWAY = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,  # a standby answers after a failover
    PoolTimeout,
    PoolClosed,
    TooManyRequests,
)

T = TypeVar("T")
Connection = psycopg.AsyncConnection[TupleRow]


class DatabaseAway(Unavailable):
    dependency = "postgres"


class Database:
    """A small pool of connections of one role; use as an async context manager. Entering needs no server."""

    def __init__(
        self,
        conninfo: Mapping[str, Any],
        *,
        timeout_s: float = TIMEOUT_S,
        connections_max: int = CONNECTIONS_MAX,
        clock: Clock | None = None,
    ) -> None:
        quieted("psycopg.pool")
        timeout_ms = int(timeout_s * 1000)
        self._timeout_s = timeout_s
        self._circuit = Circuit("postgres", clock or SystemClock(), rest_s=REST_S)
        self._left_behind: set[asyncio.Task[Any]] = set()
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            kwargs={
                **conninfo,
                "options": f"-c search_path=pg_catalog -c statement_timeout={timeout_ms} "
                f"-c lock_timeout={timeout_ms} -c idle_in_transaction_session_timeout={5 * timeout_ms}",
            },
            # Connections are made when asked for, once each time: no back-off that outlasts an outage.
            min_size=0,
            max_size=connections_max,
            reconnect_timeout=0,
            timeout=timeout_s,
            max_waiting=256,
            check=AsyncConnectionPool.check_connection,
            open=False,
        )

    async def __aenter__(self) -> Self:
        await self._pool.open(wait=False)
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._left_behind:
            task.cancel()
        await self._pool.close(timeout=self._timeout_s)

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """What ``work`` returns; it runs in one transaction, committed when it returns, undone when it raises.

        Raises DatabaseAway when the server is away, too slow or known to be away; nobody knows then whether
        the transaction was committed, so ``work`` must be safe to repeat.
        """
        if not self._circuit.enter():
            raise DatabaseAway("the database does not answer", retry_after_s=self._circuit.retry_after_s)
        task: asyncio.Task[T] = asyncio.create_task(self._transaction(work))
        try:
            await asyncio.wait({task}, timeout=self._timeout_s)
        except asyncio.CancelledError:
            self._circuit.abandoned()
            self._leave(task)
            raise
        if not task.done():
            self._circuit.failed()
            self._leave(task)
            failed("postgres", how="timeout")
            raise DatabaseAway("the database does not answer in time")
        try:
            value = task.result()
        except _AWAY as exc:
            self._circuit.failed()
            failed("postgres", exc)
            # The server's text may quote rows, and with them people: only the class goes on.
            raise DatabaseAway(f"the database does not answer: {type(exc).__name__}") from None
        except BaseException:
            self._circuit.succeeded()
            raise
        self._circuit.succeeded()
        return value

    async def probe(self) -> None:
        """Return when the database answers; raise DatabaseAway otherwise. For readiness."""

        async def ask(connection: Connection) -> None:
            await connection.execute("SELECT 1")

        await self.run(ask)

    async def _transaction(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        async with self._pool.connection() as connection:
            return await work(connection)

    def _leave(self, task: asyncio.Task[Any]) -> None:
        self._left_behind.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._left_behind.discard(task)
        if not task.cancelled():
            task.exception()  # seen: its caller was told long ago
