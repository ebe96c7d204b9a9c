"""Golden examples of every event version, and garbage: what every consumer of the log is fed in tests.

``examples/<Event>/v<N>/<name>.json`` holds one event as JSON (bytes as ``{"base64": …}``) and its Avro body in
hex, as first written: a codec that writes other bytes breaks the log's readers. ``examples/garbage/<cause>
--<name>.bin`` holds bytes that are no event of ours, named by the cause class they must end as.
"""

from __future__ import annotations

import base64
import json
import types
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, get_args, get_origin, get_type_hints

from schemas.events import EVENTS, Event
from schemas.limits import LOG_RECORD_BYTES_MAX
from schemas.versions import WriterSchema, versions


@dataclass(frozen=True, slots=True)
class Example:
    """One event, the schema it is written with, and the Avro body it must become."""

    name: str
    schema: WriterSchema
    event: Event
    body: bytes

    @property
    def wire(self) -> bytes:
        """The body in the wire format, under the pinned id."""
        return b"\0" + self.schema.pinned_id.to_bytes(4, "big") + self.body


@dataclass(frozen=True, slots=True)
class Garbage:
    """Bytes that must end as a dead letter of class ``cause``."""

    name: str
    cause: str
    data: bytes


@cache
def examples() -> tuple[Example, ...]:
    """Every example in the repository, by event, version and name."""
    found = []
    for schema in versions():
        folder = files("schemas").joinpath("examples", schema.event, f"v{schema.version}")
        for entry in _sorted(folder):
            document = json.loads(entry.read_text(encoding="utf-8"))
            found.append(
                Example(
                    name=f"{schema.event}/v{schema.version}/{entry.name.removesuffix('.json')}",
                    schema=schema,
                    event=from_json(schema.event, document["event"]),
                    body=bytes.fromhex(document["body"]),
                )
            )
    return tuple(found)


@cache
def garbage() -> tuple[Garbage, ...]:
    """Every piece of garbage: the files, and one too large to keep."""
    found = []
    for entry in _sorted(files("schemas").joinpath("examples", "garbage")):
        cause, _, name = entry.name.removesuffix(".bin").partition("--")
        found.append(Garbage(name, cause, entry.read_bytes()))
    wire = examples()[0].wire
    found.append(Garbage("over_the_topics_limit", "too_large", wire + bytes(LOG_RECORD_BYTES_MAX + 1 - len(wire))))
    return tuple(found)


def from_json(event: str, document: dict[str, Any]) -> Event:
    """The event an example's JSON stands for; fields left out have their defaults."""
    made: Event = _made(EVENTS[event], document)
    return made


def _made(kind: Any, value: Any) -> Any:
    """``value`` as an instance of ``kind``, a type of an event's field."""
    if value is None:
        return None
    if isinstance(kind, types.UnionType):
        return _made(get_args(kind)[0], value)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: _made(hints[name], inner) for name, inner in value.items()})  # type: ignore[operator]
    if get_origin(kind) is tuple:
        return tuple(_made(get_args(kind)[0], item) for item in value)
    return base64.b64decode(value["base64"], validate=True) if kind is bytes else value


def _sorted(folder: Traversable) -> Iterator[Traversable]:
    yield from sorted((entry for entry in folder.iterdir() if entry.is_file()), key=lambda entry: entry.name)
