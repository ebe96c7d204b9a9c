"""Where rows are: the engine's table in the agent, a dict in tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from streams.domain.library.rows import Row


class Shelf(Protocol):
    """Rows by full key. Reads see what was written before."""

    def get(self, key: bytes) -> Row | None: ...

    def put(self, key: bytes, row: Row) -> None: ...

    def delete(self, key: bytes) -> None:
        """Fine when it is not there."""

    def scan(self, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, Row]]:
        """Rows whose key starts with ``prefix`` and comes after ``after``, in key order. The rows are those of the
        call; what is written meanwhile is not seen."""
