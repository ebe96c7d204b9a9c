"""The engine's table as the library's rules see it: rows by key, decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from streams.agents import library_state as rows
from streams.domain.library.rows import Row, Source, Tally

#: Decoded rows that are kept; two for each source at work are all that pay.
KEPT_MAX = 1_000


class Rows(Protocol):
    """As much of a table as is used here."""

    def get(self, key: bytes, /) -> bytes | None: ...

    def __setitem__(self, key: bytes, value: bytes, /) -> None: ...

    def __delitem__(self, key: bytes, /) -> None: ...

    def scan(self, prefix: bytes, after: bytes, /) -> Iterator[tuple[bytes, bytes]]: ...

    def load(self, keys: Iterable[bytes], /) -> None: ...


class TableShelf:
    """A ``Shelf`` over a table. The rows that every record of a source reads are kept decoded beside their bytes, and
    taken only for the very bytes object they were made of: what is undone or rolled back is never taken."""

    def __init__(self, table: Rows) -> None:
        self._table = table
        self._kept: dict[bytes, tuple[bytes, Row]] = {}

    def get(self, key: bytes) -> Row | None:
        data = self._table.get(key)
        if data is None:
            return None
        kept = self._kept.get(key)
        if kept is not None and kept[0] is data:
            return kept[1]
        row = rows.decode(data)
        self._keep(key, data, row)
        return row

    def put(self, key: bytes, row: Row) -> None:
        data = rows.encode(row)
        self._table[key] = data
        self._keep(key, data, row)

    def delete(self, key: bytes) -> None:
        del self._table[key]

    def scan(self, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, Row]]:
        for key, data in self._table.scan(prefix, after):
            yield key, rows.decode(data)

    def load(self, keys: Iterable[bytes]) -> None:
        """Bring rows that will be asked for into memory, with one read of the disk."""
        self._table.load(keys)

    def _keep(self, key: bytes, data: bytes, row: Row) -> None:
        if type(row) is Tally or type(row) is Source:
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept[key] = (data, row)
