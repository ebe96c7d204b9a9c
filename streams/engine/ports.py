"""What the engine asks of the program around it: dead letters, metrics and failpoints.

The engine knows no metric library, no error format and no clock but these. All methods are called
from the event loop or from the engine's own threads; they must be quick and must not raise: an
exception out of a port is treated as any unexpected one, the worker ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from confluent_kafka import Message

from .position import SourcePosition

Headers = tuple[tuple[str, bytes], ...]

#: Called with the name of a step boundary; a test may raise, hang or kill the process there.
Failpoint = Callable[[str], None]

#: The step boundaries, in the order a batch passes them. ``restoring`` comes before any batch, ``stored`` is in
#: memory and ``persisted`` on disk (not after each batch), ``revoked_midway`` while partitions are being given away.
FAILPOINTS = (
    "restoring",
    "fetched",
    "table_written",
    "produced",
    "flushed",
    "before_commit",
    "committed",
    "stored",
    "persisted",
    "revoked_midway",
)


@dataclass(frozen=True, slots=True)
class Output:
    """One record to produce. ``partition`` ``None`` places it by murmur2 of the key."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: Headers = ()


class DeadLetterPort(Protocol):
    def make(self, record: Message, error: Exception, attempt: int, position: SourcePosition) -> Output:
        """Return the dead letter of ``record``; it commits in the transaction of its batch.

        ``attempt`` counts deliveries of the batch from 1, ``position`` is the dead letter's own.
        """


class MetricsPort(Protocol):
    """Counters and gauges; partition numbers are the only label values the engine invents."""

    def batch_committed(self, topic: str, partition: int, records: int, seconds: float) -> None:
        """One batch is durable; ``seconds`` from begin to the local store. Now is the last commit."""

    def batch_aborted(self, topic: str, partition: int) -> None:
        """One transaction was rolled back and its records will be delivered again."""

    def dead_letters(self, topic: str, partition: int, count: int) -> None:
        """So many dead letters are durable."""

    def restoring(self, done: int, total: int) -> None:
        """So many of the changelog records to replay for the newest assignment are; equal when all are."""

    def restored(self, partition: int, records: int, seconds: float) -> None:
        """A unit's state is complete; ``records`` were replayed from its changelogs."""

    def units_assigned(self, count: int) -> None:
        """So many partition numbers belong to this worker now."""

    def records_buffered(self, count: int) -> None:
        """So many records are fetched and not yet delivered."""

    def lag(self, topic: str, partition: int, records: int) -> None:
        """So many records of an assigned partition are not yet committed (every few seconds)."""


class NoMetrics:
    """Counts nothing."""

    def batch_committed(self, topic: str, partition: int, records: int, seconds: float) -> None:
        pass

    def batch_aborted(self, topic: str, partition: int) -> None:
        pass

    def dead_letters(self, topic: str, partition: int, count: int) -> None:
        pass

    def restoring(self, done: int, total: int) -> None:
        pass

    def restored(self, partition: int, records: int, seconds: float) -> None:
        pass

    def units_assigned(self, count: int) -> None:
        pass

    def records_buffered(self, count: int) -> None:
        pass

    def lag(self, topic: str, partition: int, records: int) -> None:
        pass


def no_failpoint(name: str) -> None:
    """Do nothing at step ``name``."""
