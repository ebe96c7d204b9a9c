"""A dependency that let us down: counted once for each call, where it is made."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from streams.runtime import metrics

Dependency: TypeAlias = Literal["postgres", "kafka", "valkey", "upstream"]

_TIMEOUTS: Final = frozenset(
    {
        "TimeoutError",  # Python's, and Valkey's
        "TimeoutException",  # httpx
        "ConnectionTimeout",  # psycopg, as what follows
        "PoolTimeout",
        "QueryCanceled",
        "LockNotAvailable",
        "IdleInTransactionSessionTimeout",
        "_TIMED_OUT",  # librdkafka's words
        "_MSG_TIMED_OUT",
        "REQUEST_TIMED_OUT",
    }
)
"""By name: who counts must not import every client there is."""


def failed(dependency: Dependency, error: BaseException | None = None, *, how: str = "away") -> None:
    """Count a call that came to nothing: as a timeout when ``error`` is one, else as ``how``, of a closed set."""
    if error is not None and not _TIMEOUTS.isdisjoint(kind.__name__ for kind in type(error).__mro__):
        how = "timeout"
    metrics.FAILURES.labels(dependency, how).inc()


def kafka_failed(name: str) -> None:
    """Count what librdkafka calls ``name``."""
    metrics.FAILURES.labels("kafka", "timeout" if name in _TIMEOUTS else "away").inc()
