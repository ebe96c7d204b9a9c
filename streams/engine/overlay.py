"""One table during one batch: committed rows below, this batch's writes on top.

Nothing reaches the store from here; the unit takes ``writes`` after the agent is done, or drops the
overlay when the transaction is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from .changelog import RESERVED
from .rows import MISSING, Maybe, TableRows, Value

#: So many rows of a batch that are not in memory are read one by one; with the next, all that the batch will need.
#: Looking for all of them is worth it where many are missing, which is when a worker begins.
ONE_BY_ONE: Final = 16

#: What undoes one write: whose writes, the key, and what was written before.
Undo = tuple[dict[bytes, Value], bytes, Maybe]


class Overlay:
    """``writes`` holds the last value per key, ``None`` for a deletion, in order of first write."""

    __slots__ = ("_absent", "_journal", "_prefetch", "_rows", "changelog", "prefix", "writes")

    def __init__(
        self, rows: TableRows, changelog: str, prefetch: Callable[[], Iterable[bytes]], journal: list[Undo]
    ) -> None:
        """``prefetch``: the keys that will be asked for. It is called once, see ONE_BY_ONE.

        Every write leaves its undo in ``journal``, whose owner clears it. An undo refers to the writes and not to
        the overlay: a circle would keep the batch and its records until the next collection of garbage.
        """
        self._rows = rows
        self.prefix = rows.prefix
        self.changelog = changelog
        self.writes: dict[bytes, Value] = {}
        self._journal = journal
        self._prefetch = prefetch
        self._absent = 0

    def get(self, key: bytes) -> Value:
        value: Maybe = self.writes.get(key, MISSING)
        if value is MISSING:
            value = self._rows.remembered(key)
            if value is MISSING:
                return self._fetched(key)
        return value

    def _fetched(self, key: bytes) -> Value:
        self._absent += 1
        if self._absent == ONE_BY_ONE + 1:
            self._rows.load(self._prefetch())
        return self._rows.get(key)

    def set(self, key: bytes, value: Value) -> None:
        """Write a row, or delete it with ``None``. Raises TypeError or ValueError on a bad row."""
        if type(key) is not bytes or not (value is None or type(value) is bytes):
            raise TypeError("table keys and values are bytes")
        if key.startswith(RESERVED):
            raise ValueError(f"keys starting with {RESERVED!r} are reserved")
        writes = self.writes
        self._journal.append((writes, key, writes.get(key, MISSING)))
        writes[key] = value

    def load(self, keys: Iterable[bytes]) -> None:
        """Bring committed rows into memory, with one read for all that are not there."""
        self._rows.load(keys)

    def scan(self, prefix: bytes, after: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) in key order, from behind ``after``; writes made after the first step are not seen."""
        mine = sorted(
            item for item in self.writes.items() if item[0].startswith(prefix) and (after is None or item[0] > after)
        )
        at = 0
        for key, value in self._rows.scan(prefix, after):
            while at < len(mine) and mine[at][0] < key:
                own_key, own = mine[at]
                at += 1
                if own is not None:
                    yield own_key, own
            if at < len(mine) and mine[at][0] == key:
                own = mine[at][1]
                at += 1
                if own is not None:
                    yield key, own
            else:
                yield key, value
        for own_key, own in mine[at:]:
            if own is not None:
                yield own_key, own


def undo(journal: list[Undo]) -> None:
    """Put back what was there when ``journal`` was empty, and empty it."""
    for writes, key, before in reversed(journal):
        if before is MISSING:
            del writes[key]
        else:
            writes[key] = before
    journal.clear()
