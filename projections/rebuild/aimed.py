"""The statements of a projection, aimed at other tables than the live ones.

Every statement names its tables with their schema (roles have no search_path that could find one), so aiming is
replacing those names. A statement that names a table of ours which is not in the aim is refused: a fold beside the live
model can write nothing but its own copies, whatever a projection is changed to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import psycopg
import psycopg.sql
from psycopg.abc import Params, Query

from streams.runtime.errors import ConfigurationError

_NAMED: Final = re.compile(rb"\b(model|core|api)\.([a-z_0-9]+)")
_WRITES: Final = re.compile(rb"\b(INSERT|UPDATE|DELETE|MERGE|COPY|TRUNCATE|LOCK|ALTER|DROP|CREATE)\b", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[a-z][a-z_0-9]*")

Aim = Mapping[str, str]
"""``schema.table`` of a statement → ``schema.table`` it is to reach; plain names."""


def aim_of(schema: str, models: Iterable[str], elsewhere: Iterable[str] = (), reads: Iterable[str] = ()) -> Aim:
    """Tables of schema model (``models``) and of schema core (``elsewhere``), all to their namesakes in ``schema``;
    ``reads``, with their schema, stay what they are, for statements that write nothing."""
    names = [*(f"model.{table}" for table in models), *(f"core.{table}" for table in elsewhere)]
    aimed = {name: f"{plain(schema)}.{plain(name.partition('.')[2])}" for name in names}
    return {**{name: name for name in reads}, **aimed}


def plain(name: str) -> str:
    """``name``, when it needs no quotes in SQL. Raises ConfigurationError otherwise."""
    if not _PLAIN.fullmatch(name):
        raise ConfigurationError(f"{name!r} is no name of a schema or table: lower-case letters, digits, underscores")
    return name


def aimed(aim: Aim, statement: bytes) -> bytes:
    """``statement`` with its names replaced. Raises ConfigurationError when it names another table of ours."""

    def reach(found: re.Match[bytes]) -> bytes:
        name = found[0].decode()
        if name not in aim or (aim[name] == name and _WRITES.search(statement)):
            raise ConfigurationError(f"a statement names {name}, which a fold beside the live model must not touch")
        return aim[name].encode()

    return _NAMED.sub(reach, statement)


def cursor_of(aim: Aim) -> type[psycopg.Cursor[Any]]:
    """A cursor class for ``psycopg.connect(cursor_factory=…)`` that aims all it is given."""

    @lru_cache(maxsize=256)
    def reached(statement: bytes) -> bytes:
        return aimed(aim, statement)

    class AimedCursor(psycopg.Cursor[Any]):
        def execute(self, query: Query, params: Params | None = None, **more: Any) -> Any:
            return super().execute(reached(self._text(query)), params, **more)

        @contextmanager
        def copy(self, statement: Query, params: Params | None = None, **more: Any) -> Iterator[psycopg.Copy]:
            with super().copy(reached(self._text(statement)), params, **more) as copy:
                yield copy

        def executemany(self, query: Query, params_seq: Iterable[Params], **more: Any) -> None:
            super().executemany(reached(self._text(query)), params_seq, **more)

        def _text(self, query: Query) -> bytes:
            match query:
                case bytes():
                    return query
                case str():
                    return query.encode()
                case psycopg.sql.Composable():
                    return query.as_bytes(self)
                case _:
                    raise TypeError("templates are not aimed")

    return AimedCursor
