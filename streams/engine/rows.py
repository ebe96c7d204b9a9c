"""Rows of one table in one unit: what was used lately in memory, everything in the local store below.

Commits go to memory first and reach the store later, many at once (write-behind): a key that changes in every
batch is written once per flush. Losing what is in memory costs a replay of the changelog from the store's position
and nothing else, because that position moves with the rows.

Memory is bounded: changes are flushed when they are many, and what was flushed or read is kept in two generations.
When the young one is full it becomes the old one, and what was in the old one and not used since is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from itertools import islice
from typing import Final, Protocol

#: Estimate in bytes of what a row takes beside its key and value: two objects and its places in dictionaries.
ROW_OVERHEAD = 220
#: Rows of a batch whose size is looked at.
SAMPLE = 100

Value = bytes | None


class _Missing(Enum):
    MISSING = auto()


#: Not in memory. ``None`` is a value: the row is known not to exist.
MISSING: Final = _Missing.MISSING
Maybe = bytes | None | _Missing


class Disk(Protocol):
    """What is below: the local store. Keys carry the table's prefix here."""

    def get_many(self, keys: list[bytes]) -> list[Value]:
        """Return the values in the order of ``keys``."""

    def scan(self, prefix: bytes, after: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows whose key starts with ``prefix``, in key order, from behind ``after``, as of the call."""

    def flush(self) -> None:
        """Write what is dirty in memory, of all tables."""

    def settle(self) -> None:
        """Return when what was taken to be written is. Raises Crash when it could not be."""


class TableRows:
    """Committed rows of one table. Used by one thread at a time, except that a flush may run beside reads."""

    __slots__ = ("_dirty", "_disk", "_old", "_sampled", "_sampled_bytes", "_young", "prefix")

    def __init__(self, disk: Disk, prefix: bytes) -> None:
        self._disk = disk
        self.prefix = prefix
        #: Committed and not on disk; what is here hides what the others say.
        self._dirty: dict[bytes, Value] = {}
        self._young: dict[bytes, Value] = {}
        self._old: dict[bytes, Value] = {}
        self._sampled = 1
        self._sampled_bytes = 0

    def remembered(self, key: bytes) -> Maybe:
        """Return a row if it is in memory."""
        value: Maybe = self._dirty.get(key, MISSING)
        return self._young.get(key, MISSING) if value is MISSING else value

    def get(self, key: bytes) -> Value:
        """Return a row, from the disk when it is not in memory."""
        value = self.remembered(key)
        if value is MISSING:
            self.load((key,))
            return self._young[key]
        return value

    def load(self, keys: Iterable[bytes]) -> None:
        """Bring rows into memory, with one read of the disk for all that are not there."""
        # Rows lie far apart in memory: between two looks at them there should be no step of an interpreter.
        absent = set(keys).difference(self._dirty).difference(self._young)
        if not absent:
            return
        old, young = self._old, self._young
        kept = [key for key in absent if key in old]
        young.update(zip(kept, map(old.__getitem__, kept), strict=True))
        absent.difference_update(kept)
        if absent:
            wanted = sorted(absent)  # as they lie on disk
            found = self._disk.get_many([self.prefix + key for key in wanted])
            young.update(zip(wanted, found, strict=True))
            self._sample(wanted, found)

    def put(self, writes: Mapping[bytes, Value]) -> None:
        """Take committed changes; ``None`` deletes."""
        self._dirty.update(writes)
        self._sample(writes, writes.values())

    def _sample(self, keys: Iterable[bytes], values: Iterable[Value]) -> None:
        rows = [*islice(keys, SAMPLE), *filter(None, islice(values, SAMPLE))]
        self._sampled_bytes += sum(map(len, rows))
        self._sampled += len(rows)

    @property
    def size(self) -> int:
        """Estimated bytes of what was used since the last time it grew old."""
        return self._bytes(len(self._young))

    @property
    def dirty_size(self) -> int:
        """Estimated bytes of what is not on disk."""
        return self._bytes(len(self._dirty))

    def _bytes(self, rows: int) -> int:
        # The mean counts keys and values apart, so a row is two of them.
        return rows * (ROW_OVERHEAD + 2 * self._sampled_bytes // self._sampled)

    @property
    def dirty(self) -> int:
        """Rows in memory that are newer than those on disk."""
        return len(self._dirty)

    def take_dirty(self) -> Iterator[tuple[bytes, Value]]:
        """Return the rows to write, keys with prefix, in key order. From the call on they count as written."""
        dirty, prefix = self._dirty, self.prefix
        self._young.update(dirty)  # before they leave the other place: a reader may look at this moment
        self._dirty = {}
        return _stored(prefix, dirty)

    def grow_old(self) -> None:
        """Forget what was not used since the last time. Nothing may be dirty."""
        assert not self._dirty
        self._old, self._young = self._young, {}

    def scan(self, prefix: bytes, after: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) in key order, from behind ``after``. Flushes first: the order is the disk's."""
        if self._dirty:
            self._disk.flush()
        else:  # rows may have left for a flush that runs elsewhere, and not have arrived
            self._disk.settle()
        cut = len(self.prefix)
        for stored, value in self._disk.scan(self.prefix + prefix, None if after is None else self.prefix + after):
            yield stored[cut:], value


def _stored(prefix: bytes, rows: Mapping[bytes, Value]) -> Iterator[tuple[bytes, Value]]:
    for key in sorted(rows):
        yield prefix + key, rows[key]
