"""One table during one batch: committed rows below, this batch's writes on top.

Nothing reaches the store from here; the unit takes ``writes`` after the agent is done, or drops the
overlay when the transaction is rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from .changelog import RESERVED


class _Missing:
    pass


MISSING: Final = _Missing()
Value = bytes | None
#: (overlay, key, value seen before, write before): enough to undo one write.
Undo = tuple["Overlay", bytes, "Value | _Missing", "Value | _Missing"]


class Rows(Protocol):
    """What an overlay reads of a store."""

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: list[bytes]) -> list[bytes | None]: ...

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]: ...


class Overlay:
    """``writes`` holds the last value per key, ``None`` for a deletion, in order of first write."""

    __slots__ = ("_journal", "_rows", "_seen", "changelog", "prefix", "writes")

    def __init__(
        self, rows: Rows, prefix: bytes, changelog: str, prefetch: Iterable[bytes], journal: list[Undo]
    ) -> None:
        """Every write leaves its undo in ``journal``, whose owner clears it."""
        self._rows = rows
        self.prefix = prefix
        self.changelog = changelog
        self.writes: dict[bytes, Value] = {}
        self._journal = journal
        keys = list(dict.fromkeys(prefetch))
        self._seen: dict[bytes, Value] = (
            dict(zip(keys, rows.get_many([prefix + key for key in keys]), strict=True)) if keys else {}
        )

    def get(self, key: bytes) -> Value:
        value = self._seen.get(key, MISSING)
        if isinstance(value, _Missing):
            value = self._seen[key] = self._rows.get(self.prefix + key)
        return value

    def set(self, key: bytes, value: Value) -> None:
        """Write a row, or delete it with ``None``. Raises TypeError or ValueError on a bad row."""
        if type(key) is not bytes or not (value is None or type(value) is bytes):
            raise TypeError("table keys and values are bytes")
        if key.startswith(RESERVED):
            raise ValueError(f"keys starting with {RESERVED!r} are reserved")
        self._journal.append((self, key, self._seen.get(key, MISSING), self.writes.get(key, MISSING)))
        self._seen[key] = self.writes[key] = value

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value) in key order; writes made after the first step are not seen."""
        mine = sorted(item for item in self.writes.items() if item[0].startswith(prefix))
        cut = len(self.prefix)
        at = 0
        for stored, value in self._rows.scan(self.prefix + prefix):
            key = stored[cut:]
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

    def undo(self, key: bytes, seen: Value | _Missing, write: Value | _Missing) -> None:
        """Put back what was there before one write."""
        if isinstance(seen, _Missing):
            self._seen.pop(key, None)
        else:
            self._seen[key] = seen
        if isinstance(write, _Missing):
            self.writes.pop(key, None)
        else:
            self.writes[key] = write
