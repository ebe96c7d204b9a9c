"""What the playback table holds: one version byte, then Avro in that version's schema.

Old versions stay readable: ``decode`` upgrades on read, ``encode`` writes the newest. The bytes of each version
are pinned by golden examples in the tests, because state outlives the build that wrote it.
"""

from __future__ import annotations

import json
from dataclasses import fields
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer

from streams.domain.state import Conflict, Low, Merged, Order, Pending, PreviousEpoch, Session, State

VERSION = 1


class UnknownStateVersion(Exception):
    """The row was written by a newer build. Going on would lose what it knows: upgrade this one."""


def encode(state: State) -> bytes:
    """The row of ``state``."""
    out = BytesIO()
    out.write(bytes((VERSION,)))
    schemaless_writer(out, _schema(VERSION), {name: _plain(getattr(state, name)) for name in _STATE})
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
    datum: Any = schemaless_reader(stream, _schema(version), None)
    if stream.tell() != len(row):
        raise ValueError("a table row goes on after its state")
    datum["previous_epoch"] = _made(PreviousEpoch, datum["previous_epoch"])
    datum["sessions"] = tuple(_session(session) for session in datum["sessions"])
    datum["event_ids"] = tuple(datum["event_ids"])
    datum["merged_ids"] = tuple(datum["merged_ids"])
    datum["merged_from"] = tuple(Merged(**merged) for merged in datum["merged_from"])
    datum["conflict"] = _made(Conflict, datum["conflict"])
    pending = datum["pending"]
    if pending is not None:
        datum["pending"] = Pending(**{**pending, "first": Order(**pending["first"]), "last": Order(**pending["last"])})
    return State(**datum)


_STATE = tuple(field.name for field in fields(State))
_ORDERS = ("run_from", "position_order", "phase_order", "ended", "finish_order")


def _session(datum: dict[str, Any]) -> Session:
    for name in _ORDERS:
        datum[name] = _made(Order, datum[name])
    datum["lows"] = tuple(Low(Order(**low["order"]), low["position_ms"]) for low in datum["lows"])
    return Session(**datum)


def _made(kind: Any, datum: dict[str, Any] | None) -> Any:
    return None if datum is None else kind(**datum)


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


@cache
def _schema(version: int) -> Any:
    text = files(__package__).joinpath(f"PlaybackState.v{version}.avsc").read_text(encoding="utf-8")
    return parse_schema(json.loads(text))
