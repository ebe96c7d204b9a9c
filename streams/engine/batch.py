"""What an agent receives: consecutive records of one source partition, one transaction.

A batch only collects. Outputs wait in a list and writes in overlays until the agent comes back for
the next batch; then the unit commits them together, or drops them and delivers the same records again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from types import TracebackType
from typing import Protocol

from confluent_kafka import Message

from .changelog import changelog_name
from .config import NAME, EngineConfig
from .errors import PermanentError, Refused
from .overlay import Overlay, Undo, undo
from .ports import Headers, Output
from .position import SOURCE_POSITION, SourcePosition
from .rows import TableRows

Prefetch = Callable[[Message], bytes | None]
#: topic, value, key, partition, the cause's offset and the index among its outputs, headers.
Pending = tuple[str, bytes | None, bytes | None, int, int, int, Headers]
#: The arguments of ``Producer.produce``: topic, value, key, partition, no callbacks, the time is now, headers.
RawOutput = tuple[str, bytes | None, bytes | None, int, None, None, int, list[tuple[str, bytes]]]
NOT_CONSUMED = "not a consumed record: it has no offset"
#: librdkafka's "let the partitioner choose".
ANY_PARTITION = -1


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A declared table. ``prefetch`` names the row a record will need, by default that of its key."""

    name: str
    changelog: str
    prefetch: Prefetch | None = None

    @classmethod
    def of(cls, group: str, name: str, prefetch: Prefetch | None = None) -> TableSpec:
        """Raises Refused when ``name`` cannot be part of a topic name."""
        if not NAME.fullmatch(name):
            raise Refused(f"table {name!r}: letters, digits, dot, dash and underscore only")
        return cls(name, changelog_name(group, name), prefetch)

    @property
    def prefix(self) -> bytes:
        """Where the table's rows lie in the unit's store."""
        return self.name.encode("ascii") + b"\0"


class BatchState(Enum):
    QUEUED = auto()  # delivered, the agent has not taken it
    STARTED = auto()  # the agent works on it
    FINISHED = auto()  # the agent came back; it commits
    DROPPED = auto()  # superseded or taken back; must not be started any more


class BatchOwner(Protocol):
    """Who delivered the batch and wants to hear when the agent is done with it."""

    def started(self, batch: Batch) -> bool:
        """The agent is about to take the batch; return whether it may."""

    def finished(self, batch: Batch) -> None:
        """The agent came back for the next batch."""


class Tables(Protocol):
    """Where the committed rows are."""

    def table(self, prefix: bytes) -> TableRows: ...


class Batch:
    """Attributes: ``topic``, ``topic_id``, ``partition``, ``records``, ``attempt`` (deliveries, from 1).

    Iterating yields the records in order and makes each the one that outputs are attributed to, as
    ``guard`` does.
    """

    __slots__ = (
        "_config", "_counts", "_guarded", "_guarding", "_header_head", "_journal", "_mark", "_newest",
        "_next", "_offset", "_rows",
        "attempt", "dead", "guarded", "last_dead", "outputs", "overlays", "owner", "partition", "records",
        "since", "state", "topic", "topic_id",
    )  # fmt: skip

    def __init__(
        self,
        *,
        config: EngineConfig,
        rows: Tables,
        owner: BatchOwner,
        topic: str,
        topic_id: str,
        partition: int,
        records: Sequence[Message],
        attempt: int = 1,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.records = records
        self.attempt = attempt
        self.owner = owner
        self.state = BatchState.QUEUED
        self.since = 0.0
        self.outputs: list[Pending] = []
        self.overlays: dict[str, Overlay] = {}
        #: How many records were guarded, and which of those (counted from 0) became dead letters.
        self.guarded = 0
        self.dead: list[int] = []
        #: The newest of those, for people: where it lies and what was wrong.
        self.last_dead = ""
        self._config = config
        self._rows = rows
        # What is guarded, and how many outputs there were before.
        self._journal: list[Undo] = []
        self._guarded: Message | None = None
        self._guarding = False
        self._mark = 0
        self._offset: int | None = None
        # The newest record with outputs, or looked at for them, and how many it has. Of all records only once an agent
        # goes back to an earlier one: it costs more than the rest of sending.
        self._newest = -1
        self._next = 0
        self._counts: dict[int, int] | None = None
        self._header_head = f"{topic}/{topic_id}/{partition}/"

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Message]:
        for record in self.records:
            self._offset = record.offset()
            yield record
        self._offset = None

    @property
    def at(self) -> str:
        """Where the agent is, for people: its record, or all of the batch when it does not say which."""
        if self._offset is not None:
            return f"{self.topic}[{self.partition}]@{self._offset}"
        return f"{self.topic}[{self.partition}]@{_offset(self.records[0])}..{_offset(self.records[-1])}"

    @property
    def next_offset(self) -> int:
        """The source offset after this batch."""
        return _offset(self.records[-1]) + 1

    def keep_alive(self) -> None:
        """The agent waits for something outside: the batch timeout starts anew. Not for slow work."""
        self.since = time.monotonic()

    def position(self, record: Message, index: int) -> SourcePosition:
        """Return the position of output ``index`` of ``record``."""
        return SourcePosition(self.topic, self.topic_id, self.partition, _offset(record), index)

    def guard(self, record: Message) -> Batch:
        """Process ``record`` inside ``with``; a permanent error then costs only this record.

        On PermanentError (or a type of ``permanent_errors``) its writes and outputs are undone and its
        dead letter joins the transaction. Any other exception passes through and ends the worker.
        Guards do not nest.
        """
        if self._guarding:
            raise RuntimeError("guards do not nest")
        # Not an object of its own: one that refers to its batch keeps the records of both alive until the next
        # collection of garbage.
        self._guarded = record
        return self

    def __enter__(self) -> None:
        record = self._guarded
        if record is None:
            raise RuntimeError("use `with batch.guard(record)`")
        offset = self._offset = record.offset()
        if offset is None:
            raise ValueError(NOT_CONSUMED)
        self._guarding = True
        self._journal.clear()
        self.guarded += 1
        self._mark = len(self.outputs)

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> bool:
        record, self._guarded = self._guarded, None
        self._guarding = False
        if error is None:
            self._offset = None
            return False
        permanent: tuple[type[Exception], ...] = (PermanentError, *self._config.permanent_errors)
        if not isinstance(error, permanent):
            return False  # the offset stays known: it says where the agent failed
        assert record is not None
        self._bury(record, error)
        self._offset = None
        return True

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers | Sequence[tuple[str, bytes]] = (),
        *,
        record: Message | None = None,
    ) -> int:
        """Produce in the batch's transaction, with the output's position as a header; return its index.

        ``record`` is the cause; inside ``guard`` or while iterating the batch it is known. Raises
        RuntimeError when there is none. ``partition`` ``None``: murmur2 of the key.
        """
        offset = self._offset if record is None else _offset(record)
        if offset is None:
            raise RuntimeError(
                "send() needs the record it is caused by: use guard(), iterate the batch or pass record="
            )
        index = self._counted(offset, 1)
        self.outputs.append(
            (
                topic,
                value,
                key,
                ANY_PARTITION if partition is None else partition,
                offset,
                index,
                tuple(headers) if headers else (),
            )
        )
        return index

    def places(self) -> dict[tuple[str, int], int]:
        """How many outputs go to each topic and partition; ANY_PARTITION where the producer chooses."""
        found: dict[tuple[str, int], int] = {}
        topic, partition, run = "", ANY_PARTITION, 0
        for output in self.outputs:
            # Most follow one of the same place, and a run is cheaper to count than its members.
            if output[3] != partition or output[0] != topic:
                found[topic, partition] = found.get((topic, partition), 0) + run
                topic, partition, run = output[0], output[3], 0
            run += 1
        found[topic, partition] = found.get((topic, partition), 0) + run
        found.pop(("", ANY_PARTITION), None)
        return found

    def raw_outputs(self) -> Iterator[RawOutput]:
        """Yield what to produce. Headers are made only now: what waits for its commit has left the processor's caches
        by then, and costs the more to free the more objects it is."""
        head = self._header_head
        for topic, value, key, partition, offset, index, headers in self.outputs:
            position = (SOURCE_POSITION, f"{head}{offset}/{index}".encode())
            yield topic, value, key, partition, None, None, 0, [*headers, position] if headers else [position]

    def overlay(self, table: TableSpec) -> Overlay:
        """Return the view of ``table`` in this batch."""
        overlay = self.overlays.get(table.name)
        if overlay is None:
            overlay = self.overlays[table.name] = Overlay(
                self._rows.table(table.prefix),
                table.changelog,
                partial(_keys, self.records, table.prefetch or Message.key),
                self._journal,
            )
        return overlay

    def _counted(self, offset: int, more: int) -> int:
        """How many outputs the record at ``offset`` has; ``more`` from now on."""
        if self._counts is None:
            if offset > self._newest:
                self._newest, self._next = offset, 0
            if offset == self._newest:
                before = self._next
                self._next += more
                return before
            self._counts = dict(Counter(output[4] for output in self.outputs))
        before = self._counts.get(offset, 0)
        self._counts[offset] = before + more
        return before

    def _bury(self, record: Message, error: Exception) -> None:
        """Undo the guarded record and put its dead letter into the transaction."""
        port = self._config.dead_letter
        if port is None:
            raise Refused(
                f"{self.at} cannot be processed ({error!r}), and there is nowhere "
                "to put it: set EngineConfig.dead_letter, or have the agent decide what such a record means"
            ) from error
        for output in self.outputs[self._mark :]:
            self._counted(output[4], -1)
        del self.outputs[self._mark :]
        undo(self._journal)
        self.dead.append(self.guarded - 1)
        self.last_dead = f"{self.at}: {error!r}"
        position = self.position(record, self._counted(_offset(record), 0))
        letter: Output = port.make(record, error, self.attempt, position)
        self.send(letter.topic, letter.value, letter.key, letter.partition, letter.headers)


def _keys(records: Sequence[Message], prefetch: Prefetch) -> set[bytes]:
    keys = set(map(prefetch, records))
    keys.discard(None)
    return keys  # type: ignore[return-value]


def _offset(record: Message) -> int:
    offset = record.offset()
    if offset is None:
        raise ValueError(NOT_CONSUMED)
    return offset
