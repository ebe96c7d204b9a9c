"""PostgreSQL for threads that may wait: a small pool, one transaction a call, or DatabaseAway."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from streams.runtime.database import DatabaseAway
from streams.runtime.errors import ConfigurationError
from streams.runtime.failures import failed
from streams.runtime.quiet import quieted

TIMEOUT_S = 5.0
CONNECTIONS_MAX = 8
# A dead peer is noticed within about 15 s, even when the network just swallows packets.
_NETWORK = {"keepalives": 1, "keepalives_idle": 5, "keepalives_interval": 3, "keepalives_count": 3}
_TCP_USER_TIMEOUT_MS = 15_000
_AWAY = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,  # a standby answers after a failover
    psycopg.errors.IdleInTransactionSessionTimeout,
    PoolTimeout,
    PoolClosed,
    TooManyRequests,
)
_NOT_MIGRATED = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.InsufficientPrivilege,
)

T = TypeVar("T")
Connection = psycopg.Connection[TupleRow]


class BlockingDatabase:
    """Connections of one role, for any number of threads; use as a context manager. Entering needs no server."""

    def __init__(self, conninfo: Mapping[str, Any], *, connections_max: int = CONNECTIONS_MAX) -> None:
        quieted("psycopg.pool")
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            kwargs={**_NETWORK, "tcp_user_timeout": _TCP_USER_TIMEOUT_MS, **conninfo},
            min_size=0,
            max_size=connections_max,
            reconnect_timeout=0,
            timeout=TIMEOUT_S,
            max_idle=60.0,
            check=ConnectionPool.check_connection,
            open=False,
        )

    def __enter__(self) -> Self:
        self._pool.open(wait=False)
        return self

    def __exit__(self, *exc: object) -> None:
        self._pool.close(TIMEOUT_S)

    def run(self, work: Callable[[Connection], T]) -> T:
        """What ``work`` returns; it runs in one transaction, committed when it returns, undone when it raises.

        Raises DatabaseAway when the server is away or gave up on us; nobody knows then whether the transaction was
        committed, so ``work`` must be safe to repeat. Raises ConfigurationError when tables or grants are missing.
        """
        try:
            with self._pool.connection() as connection:
                return work(connection)
        except _AWAY as exc:
            failed("postgres", exc)
            # The server's text may quote rows: only the class goes on.
            raise DatabaseAway(f"PostgreSQL does not answer: {type(exc).__name__}") from None
        except _NOT_MIGRATED as exc:
            raise ConfigurationError(
                f"the database lacks what this build needs ({type(exc).__name__}): run 'playhead migrate'"
            ) from exc
