"""What a projection is: a topic folded into rows of PostgreSQL, and the cache keys that fold makes stale."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, Generic, TypeVar

import psycopg

from schemas.events import Event, SourcePosition
from schemas.topics import Topic

E = TypeVar("E", bound=Event)
Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Record(Generic[E]):
    """One decoded record. ``log_epoch`` and ``offset`` are its version; ``timestamp`` is the log-append time, ms.

    ``body`` are the bytes of its Avro body, without the wire format's header.
    """

    event: E
    partition: int
    offset: int
    log_epoch: int
    timestamp: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Invalidation:
    """A cache key that is stale below ``(log_epoch, version)``; the rest is of the report that made it so."""

    cache_key: str
    log_epoch: int
    partition: int
    version: int
    event_id: str
    correlation_id: str
    source_id: str
    reason: str

    @classmethod
    def by(cls, record: Record[Any], cache_key: str, reason: str) -> Invalidation:
        """Of what ``record`` has made stale: below its own version."""
        return cls(
            cache_key=cache_key,
            log_epoch=record.log_epoch,
            partition=record.partition,
            version=record.offset,
            event_id=record.event.event_id,
            correlation_id=record.event.correlation_id,
            source_id=record.event.source_id,
            reason=reason,
        )


@dataclass(frozen=True, slots=True)
class Folded:
    """What a batch changed. ``stale`` counts records that were older than their row and changed nothing. ``untidy``:
    the projection's ``tidy`` has something to do now."""

    invalidations: Sequence[Invalidation]
    stale: int = 0
    untidy: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """A statement of a bulk fold; with ``data`` it is a COPY of that."""

    statement: str
    data: bytes | None = None


class Bulk(ABC, Generic[E]):
    """A fold for a rebuild from the first record of a log: into empty tables, each record once, in order.

    ``steps`` is asked for batches in order, while those of the batch before may still be on their way to PostgreSQL.
    """

    @abstractmethod
    def steps(self, batch: Sequence[Record[E]]) -> Sequence[Step] | None:
        """What ``Projection.fold`` would write, but for rows that have expired. None: fold this batch that way."""


class Projection(ABC, Generic[E]):
    """Folds records of one topic into rows. Stateless between batches: PostgreSQL holds everything.

    ``version`` is raised when the rows a record makes change, so that a rebuild is due.
    """

    name: ClassVar[str]
    topic: ClassVar[Topic]
    version: ClassVar[int]
    batch_records_max: ClassVar[int | None] = None
    """Records in one batch at most, where as many as the setting allows would be too much."""
    gather_ms: ClassVar[int] = 100
    """How long a record may wait for others that share its batch. Short where people wait for what it says."""
    tables: ClassVar[tuple[str, ...]] = ()
    """Its read models, tables of schema model: what a rebuild makes anew. None: there is nothing to rebuild."""
    elsewhere: ClassVar[tuple[str, ...]] = ()
    """Tables of schema core that it writes too. A rebuild writes copies of them, which are thrown away."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Live tables of others, with their schema, that it looks into and never writes: to tell what it makes stale."""
    newest_wins: ClassVar[frozenset[str]] = frozenset()
    """Of ``tables`` those whose row is of the newest record of its key; rows of the others never change."""
    from_anywhere: ClassVar[bool] = True
    """Whether rows over which later records are folded again come out the same. Where rows count differences between
    records they do not: such a model is rebuilt from the first record only."""

    @abstractmethod
    def accept(self, key: bytes, event: Event, partition: int) -> E:
        """``event`` when it belongs here. Raises Permanent when it and its key or place disagree."""

    @abstractmethod
    def cause(self, event: E) -> SourcePosition | None:
        """The record that caused this one; within a partition causes of one topic id only rise. None: a person or a
        program did, and the same said twice must mean no more than once."""

    def prepare(self, connection: Connection) -> None:
        """Called once for each new connection, outside a transaction."""

    def bulk(self, tx: Connection, since: date) -> Bulk[E] | None:
        """The quicker fold for a rebuild from the first record, when there is one. ``tx`` reads what was folded so far;
        rows that expire count from the day ``since`` on."""
        del tx, since
        return None

    def renew_elsewhere(self, tx: Connection) -> None:
        """Bring ``elsewhere`` to what the live tables say. Called in the transaction that makes rebuilt tables the live
        ones, after they are, and in one that makes core a backup's beside tables that stay."""

    def tidy(self, tx: Connection) -> None:
        """Called for the live projection in a transaction of its own, when it begins and after a batch that was
        ``untidy``: what the log says, done where nobody follows the log. Repeating it is harmless."""

    @abstractmethod
    def fold(self, batch: Sequence[Record[E]], tx: Connection) -> Folded:
        """Write what ``batch`` means in the open transaction ``tx``, once in each; never commit.

        Within a partition the batch is in the order of the log. It may hold records that were folded before
        (a replay, another owner's batch): those must change nothing, which version guards and rows unique by
        position see to. No clock decides what a row says.
        """

    def fold_late(self, record: Record[E], tx: Connection) -> Folded:
        """As ``fold``, of one record that could not be applied when it was its turn: later ones were folded already.
        Afterwards the rows are those it would have led to then."""
        return self.fold([record], tx)
