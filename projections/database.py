"""PostgreSQL for writers: one connection, made when needed, thrown away on any doubt.

A batch that met an error is read again from Kafka, from the offset PostgreSQL holds; so nothing here tries a
statement twice or asks whether a lost COMMIT happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg

from projections.base import Connection
from streams.runtime.errors import ConfigurationError, Unavailable
from streams.runtime.failures import failed

# A dead peer is noticed within about 15 s, even when the network just swallows packets.
_NETWORK = {"keepalives": 1, "keepalives_idle": 5, "keepalives_interval": 3, "keepalives_count": 3}
_TCP_USER_TIMEOUT_MS = 15_000
_AWAY = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,  # a standby answers, the failover is under way
    psycopg.errors.IdleInTransactionSessionTimeout,  # we were frozen, and the server ended the session
)
_NOT_MIGRATED = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.InsufficientPrivilege,
)


class Writer:
    """The connection of one projector or relay. Not thread-safe."""

    def __init__(self, conninfo: Mapping[str, Any], prepare: Callable[[Connection], None] | None = None) -> None:
        """``prepare`` is called with each new connection, outside a transaction."""
        self._conninfo = {**_NETWORK, "tcp_user_timeout": _TCP_USER_TIMEOUT_MS, "connect_timeout": 5, **conninfo}
        self._prepare = prepare
        self._connection: Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction: committed at the end, rolled back by any exception.

        Raises Unavailable when the server is away or gave up on us; then it is not known whether a commit
        happened. Raises ConfigurationError when tables or grants are missing. Other errors pass as they are.
        """
        with self._judged():
            connection = self._connected()
            with connection.transaction():
                yield connection

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            # autocommit: transactions begin and end where transaction() says so.
            connection = psycopg.connect(**{**self._conninfo, "autocommit": True})
            if self._prepare is not None:
                self._prepare(connection)
            self._connection = connection
        return self._connection

    @contextmanager
    def _judged(self) -> Iterator[None]:
        try:
            yield
        except _AWAY as exc:
            self.close()
            failed("postgres", exc)
            # The server's text may quote rows: only the class goes on.
            raise Unavailable(f"PostgreSQL does not answer: {type(exc).__name__}") from exc
        except _NOT_MIGRATED as exc:
            self.close()
            raise ConfigurationError(
                f"the database lacks what this build needs ({type(exc).__name__}): run the migrations as its owner"
            ) from exc
        except BaseException:
            self.close()
            raise
