"""Rows of small tables: one version byte, then Avro in that version's schema, as in streams/agents/state.

For tables that are read or written seldom and have had one version only.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cached_property
from typing import Any, Generic, TypeVar

from schemas.codec.compiled import Coders, coders
from schemas.codec.plan import Plan
from schemas.errors import Undecodable
from streams.agents.state import DamagedRow, UnknownStateVersion

T = TypeVar("T")


class SmallRows(Generic[T]):
    """The codec of the record ``name`` of ``plan``, in its only ``version``; made when it is first used."""

    def __init__(self, plan: Plan, name: str, version: int) -> None:
        self._plan = plan
        self._name = name
        self._version = version
        self._prefix = bytes((version,))

    def encode(self, row: T) -> bytes:
        """The bytes of ``row``. Raises InvalidValue (schemas.errors) when a field has not the type it is declared
        with."""
        return self._coders.encode[self._name](row, self._prefix)

    def decode(self, data: bytes) -> T:
        """The row in ``data``. Raises UnknownStateVersion for a newer build's, DamagedRow for what is no row."""
        if data[:1] != self._prefix:
            if not data:
                raise DamagedRow("a table row of no bytes")
            raise UnknownStateVersion.of(data[0], self._version)
        try:
            found: T = self._coders.decode[self._name, self._version](data, 1)
        except Undecodable as exc:
            raise DamagedRow(f"a damaged table row: {exc}") from exc
        return found

    def readable(self, data: bytes) -> object:
        """``data`` as JSON values. Raises as ``decode`` does."""
        row: Any = self.decode(data)
        return asdict(row)

    @cached_property
    def _coders(self) -> Coders:
        return coders(self._plan)
