"""What the playback table holds: one version byte, then Avro in that version's schema.

Old versions stay readable: ``decode`` upgrades on read, ``encode`` writes the newest. The bytes of each version
are pinned by golden examples in the tests, because state outlives the build that wrote it. A record of the
schema is the class of the same name in streams/domain/state.py, field by field; a test holds them to each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer

from streams.domain import state as domain
from streams.domain.state import State

VERSION = 1
# The record that is the whole row; the others keep their names.
_NAMES = {"PlaybackState": "State"}


class UnknownStateVersion(Exception):
    """The row was written by a newer build. Going on would lose what it knows: upgrade this one."""


def encode(state: State) -> bytes:
    """The row of ``state``."""
    out = BytesIO()
    out.write(bytes((VERSION,)))
    schemaless_writer(out, _schema(VERSION), _plain(state))
    return out.getvalue()


def decode(row: bytes) -> State:
    """The state in ``row``, of any version this build knows. Raises UnknownStateVersion for a newer one.

    Anything else that is wrong with the bytes raises whatever the reader raises: our own store is damaged,
    and only starting over from the changelog helps.
    """
    version = row[0]
    if version != VERSION:
        raise UnknownStateVersion(f"a table row of version {version}; this build knows up to {VERSION}")
    stream = BytesIO(row)
    stream.seek(1)
    datum = schemaless_reader(stream, _schema(version), None)
    if stream.tell() != len(row):
        raise ValueError("a table row goes on after its state")
    state = _maker(version)(datum)
    assert isinstance(state, State)
    return state


def _plain(value: Any) -> Any:
    """Dataclasses and named tuples as dictionaries, the way the Avro writer takes records."""
    if value is None or isinstance(value, int | str):
        return value
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        if names is None:
            return [_plain(item) for item in value]
        return {name: _plain(item) for name, item in zip(names, value, strict=True)}
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}


Make = Callable[[Any], Any]


@cache
def _maker(version: int) -> Make:
    """What turns the reader's dictionaries and lists into a State, put together once from the schema."""
    return _maker_of(_document(version), {}) or _as_it_is


def _maker_of(schema: Any, known: dict[str, Make]) -> Make | None:
    """None for what needs no turning."""
    if isinstance(schema, str):
        return known.get(schema)
    if isinstance(schema, list):
        (inner,) = (branch for branch in schema if branch != "null")
        make = _maker_of(inner, known)
        return None if make is None else _unless_none(make)
    if schema["type"] == "array":
        item = _maker_of(schema["items"], known) or _as_it_is
        return lambda datum: tuple(map(item, datum))
    kind = getattr(domain, _NAMES.get(schema["name"], schema["name"]))
    turned: list[tuple[str, Make]] = []

    def record(datum: dict[str, Any]) -> Any:
        for name, make in turned:
            datum[name] = make(datum[name])
        return kind(**datum)

    known[schema["name"]] = record
    for field in schema["fields"]:
        make = _maker_of(field["type"], known)
        if make is not None:
            turned.append((field["name"], make))
    return record


def _unless_none(make: Make) -> Make:
    return lambda datum: None if datum is None else make(datum)


def _as_it_is(datum: Any) -> Any:
    return datum


@cache
def _schema(version: int) -> Any:
    return parse_schema(_document(version))


def _document(version: int) -> Any:
    text = files(__package__).joinpath(f"PlaybackState.v{version}.avsc").read_text(encoding="utf-8")
    return json.loads(text)
