"""Parts of a committed transaction that a later abort took back: which they are, and that they may be written again.

A commit is answered when its coordinator has it in its log, before the partitions have its marker. If that broker dies
in between, and its successor finds a partition without a leader and takes it for deleted, that part stays undecided
though the transaction is complete (tests/faults/orphans). The next marker of the same producer decides it: a commit
mends it; an abort, also one by fencing, takes it back. No client can prevent it: between the answer and the marker
nothing tells the two apart. So it is looked for before a unit's first transaction, when everything is decided.

**Which transaction.** Only the last committed one of a unit can have lost a part. The one after it either ended within
SLOW_TRANSACTION of its answer, in which no coordinator is restarted: the markers of the one before were written. Or it
was committed, and mended what it wrote to; that the rest is decided is waited for. Or it was aborted, and then the
worker ends (:mod:`.unit`).

**What proves that it was committed.** It wrote its outputs, its changelogs, in one of which the source mark, and the
group's offset; all or none was committed, and each says how far the source is processed by it. So:

- The newest committed mark is the last transaction's, or its own changelog part was lost.
- Then the group's offset is beyond the mark, and an aborted mark after it names exactly that offset and says that it
  replaces exactly this mark. Attempts that were really aborted name an offset that the group does not have: what the
  group has is processed, so nothing begins before it any more, and of several that end there the last is meant.
- If the group's offset was lost as well, nothing proves it, and nothing has to: its records are processed again, which
  outputs that are visible take for a repetition (readers drop it by source position).

**What its parts are.** It says itself how many records it has where (:mod:`.parts`). In its changelogs these are the
ones up to the record that says so, in an output the last so many of its source positions: after a commit nobody
processes these positions again. What is not whole is not written again.

**Why nothing is doubled.** Written again is what is aborted, so nobody saw it, and of which no copy is visible. All of
it is one transaction, with the same headers: if it loses a part in turn, it is found like the first. And what would
be doubled by an error here, readers drop by source position.

**Order.** Of a key, in a partition: what is written again comes after all that was visible before, as it did the first
time, provided nothing of the unit that is newer is visible there. A unit that restarts has written nothing newer; it
is checked all the same, and refused.

Running the inputs again instead would be simpler, but cannot make outputs of which the tables already count the
inputs, and moves the group's offset back.

Pure: :mod:`.mending` reads and writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Message

from .batch import ANY_PARTITION
from .changelog import SourceMark, source_of
from .parts import Parts
from .position import SourcePosition

Headers = list[tuple[str, object]]


class Incomplete(Exception):
    """A part is lost, and what is left of it is not all of it, or newer records are visible behind it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction, by its source mark: it processed ``source`` up to ``reached`` (excluded).

    ``offset`` and ``timestamp`` (ms) are those of the mark's record; ``said`` its headers, the same in all changelogs.
    ``changelogs`` are the tables it wrote to, as its mark names them; ``parts`` is ``None`` of one that an older build
    wrote.
    """

    source: str
    reached: int
    changelogs: tuple[tuple[str, str], ...]
    offset: int
    timestamp: int
    said: Sequence[tuple[str, object]]
    parts: Parts | None


def headers_of(record: Message) -> Headers:
    return cast(Headers, record.headers() or [])


def offset_of(record: Message) -> int:
    offset = record.offset()
    assert offset is not None
    return offset


def ended(record: Message) -> Ended | None:
    """Return the transaction of which ``record`` is the source mark, ``None`` when it is another record."""
    key, value = record.key(), record.value()
    source = source_of(key) if key is not None else None
    if source is None or value is None:
        return None
    headers = headers_of(record)
    mark = SourceMark.decode(value)
    parts = Parts.from_headers(headers)
    return Ended(source, mark.offset, mark.changelogs, offset_of(record), record.timestamp()[1], tuple(headers), parts)


def proven(aborted: Sequence[Message], offsets: Mapping[str, int | None]) -> Ended | None:
    """Return the transaction of the aborted marks behind the newest one of which the group's offset proves that it
    was committed; whether its ``parts.mark`` is that mark is left to ask."""
    for record in reversed(aborted):
        found = ended(record)
        if found is not None and found.parts is not None and offsets.get(found.source) == found.reached:
            return found
    return None


def changes_lost(
    transaction: Ended, visible: Iterable[Message], copies: Sequence[Message], count: int
) -> list[Message]:
    """Return what a changelog has lost of ``transaction``, in order; nothing when it is visible.

    ``visible``: committed records, ``copies``: these and aborted ones, both of a stretch that begins before it.
    Raises Incomplete.
    """
    seen = {offset_of(record) for record in visible}
    last = next((at for at in reversed(range(len(copies))) if says(copies[at], transaction)), None)
    if last is None:
        raise Incomplete("its records are gone")
    if offset_of(copies[last]) in seen:
        return []
    lost = copies[max(0, last + 1 - count) : last + 1]
    if len(lost) < count or not seen.isdisjoint(map(offset_of, copies[last + 1 - count :])):
        raise Incomplete(f"{count} records belong together, and they do not")
    return list(lost)


def says(record: Message, transaction: Ended) -> bool:
    """Whether a record of a changelog is the last of its part of ``transaction``."""
    return bool(transaction.said) and tuple(headers_of(record)) == tuple(transaction.said)


@dataclass(frozen=True, slots=True)
class Positions:
    """The source positions of a transaction: ``first`` to ``reached`` (excluded) of one source partition."""

    source: str
    source_id: str
    partition: int
    first: int
    reached: int

    def of(self, record: Message) -> tuple[int, int] | None:
        """Return offset and index of an output of the transaction, ``None`` of another record."""
        position = position_of(record)
        if position is None or not self.first <= position.offset < self.reached:
            return None
        if (position.topic, position.topic_id, position.partition) != (self.source, self.source_id, self.partition):
            return None
        return position.offset, position.index


def position_of(record: Message) -> SourcePosition | None:
    try:
        return SourcePosition.from_headers(headers_of(record))
    except ValueError:
        return None  # somebody else's


def outputs_seen(positions: Positions, visible: Iterable[Message], partition: int, count: int) -> bool:
    """Whether the transaction's part in an output is visible: a partition has all of it or nothing, but of one that
    the producer chose, ANY_PARTITION, parts may be in several."""
    found = {at for record in visible if (at := positions.of(record)) is not None}
    return len(found) >= (count if partition == ANY_PARTITION else 1)


def outputs_lost(
    positions: Positions, visible: Iterable[Message], copies: Iterable[Message], partition: int, count: int,
    sources: Collection[str],
) -> list[Message]:  # fmt: skip
    """Return what an output has lost of a transaction, in order; nothing when all is visible or gone by retention.

    Arguments as of ``changes_lost``, in the order of the log; ``sources`` are those of the unit. Raises Incomplete.
    """
    visible = list(visible)
    seen = {at for record in visible if (at := positions.of(record)) is not None}
    found = sorted(copies, key=lambda record: record.timestamp()[1]) if partition == ANY_PARTITION else list(copies)
    newest: dict[tuple[int, int], Message] = {}
    for record in reversed(found):
        at = positions.of(record)
        if at is not None and len(newest) < count:
            newest.setdefault(at, record)
    lost = [record for at, record in reversed(newest.items()) if at not in seen]
    if lost and len(newest) < count:
        raise Incomplete(f"{count} outputs belong together, {len(newest)} are found")
    begin: dict[int | None, int] = {}
    for record in lost:
        begin.setdefault(record.partition(), offset_of(record))
    for record in visible:
        position, after = position_of(record), begin.get(record.partition())
        newer = position is not None and position.topic in sources and position.partition == positions.partition
        if newer and after is not None and offset_of(record) > after and positions.of(record) is None:
            raise Incomplete(f"newer outputs of the unit are visible, e.g. at offset {record.offset()}")
    return lost
