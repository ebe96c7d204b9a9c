"""What a schema is made of, as the codecs see it: the few Avro types we use, and nothing else.

Records, ``["null", X]``, arrays, strings, bytes, long, int and boolean; named types may be referred to once they
are defined. Anything else is refused loudly: a codec that guesses is worse than a build that stops.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, assert_never

LONG_MAX = (1 << 63) - 1
INT_MAX = (1 << 31) - 1


class Unsupported(Exception):
    """A schema, a class or a pair of versions that no codec is made for. Says where and why."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A value without parts."""

    kind: Literal["string", "bytes", "long", "int", "boolean"]


@dataclass(frozen=True, slots=True)
class Nullable:
    """``["null", inner]``: branch 0 is None."""

    inner: Plain | Array | Record


@dataclass(frozen=True, slots=True)
class Array:
    """Items that each take at least one byte, so that a claimed count is bounded by the bytes behind it."""

    items: Shape


@dataclass(frozen=True, slots=True)
class Field:
    """``default`` is the value in Python's terms; it counts only when ``has_default``."""

    name: str
    shape: Shape
    has_default: bool
    default: Any


@dataclass(frozen=True, slots=True)
class Record:
    """``name`` without its namespace."""

    name: str
    fields: tuple[Field, ...]


Shape = Plain | Nullable | Array | Record


def shape_of(text: str) -> Record:
    """The shape of the schema ``text`` (JSON). Raises Unsupported."""
    found = _Walk().shape("schema", json.loads(text))
    if not isinstance(found, Record):
        raise Unsupported("the schema is not a record")
    return found


def records_of(shape: Shape) -> Iterator[Record]:
    """Every record in ``shape``, each once, those it is made of before itself."""
    yield from {record.name: record for record in _records(shape)}.values()


def resolve(writer: Record, reader: Record) -> None:
    """Hold ``writer`` to be readable as ``reader``. Raises Unsupported.

    Fields meet by name. One that only the reader has needs a default, one that only the writer has is dropped;
    what both have is of the same type: nothing is promoted.
    """
    _meet(writer.name, writer, reader)


class _Walk:
    """One pass over one schema; remembers the named types, finished and unfinished."""

    def __init__(self) -> None:
        self._known: dict[str, Record] = {}
        self._open: list[str] = []

    def shape(self, where: str, schema: Any) -> Shape:
        match schema:
            case "string" | "bytes" | "long" | "int" | "boolean":
                return Plain(schema)
            case str():
                return self._named(where, schema)
            case ["null", other]:
                inner = self.shape(where, other)
                if isinstance(inner, Nullable):
                    raise Unsupported(f"{where}: a union inside a union")
                return Nullable(inner)
            case {"type": "array", "items": items}:
                return Array(self.shape(f"{where}[]", items))
            case {"type": "record", "name": str() as name, "fields": [*fields]}:
                return self._record(where, name.rpartition(".")[2], fields)
            case {"type": str() as inner_type, **rest} if not rest:
                return self.shape(where, inner_type)
            case _:
                raise Unsupported(f"{where}: {json.dumps(schema)[:80]} is no type the codecs know")

    def _named(self, where: str, name: str) -> Record:
        short = name.rpartition(".")[2]
        if short in self._open:
            raise Unsupported(f"{where}: {short} inside itself")
        if short not in self._known:
            raise Unsupported(f"{where}: {name} is no type the codecs know")
        return self._known[short]

    def _record(self, where: str, name: str, fields: list[Any]) -> Record:
        if name in self._known or name in self._open:
            raise Unsupported(f"{where}: {name} is defined twice")
        if not fields:
            raise Unsupported(f"{where}: {name} has no fields, so it takes no bytes")
        if not name.isidentifier():
            raise Unsupported(f"{where}: {name!r} is no name")
        self._open.append(name)
        made: list[Field] = []
        for field in fields:
            called = field["name"]
            at = f"{where}.{called}"
            if not called.isidentifier() or called in {other.name for other in made}:
                raise Unsupported(f"{at}: no name, or named twice")
            shape = self.shape(at, field["type"])
            has_default = "default" in field
            made.append(Field(called, shape, has_default, _default(at, shape, field.get("default"), has_default)))
        self._open.pop()
        self._known[name] = Record(name, tuple(made))
        return self._known[name]


def _default(where: str, shape: Shape, value: Any, given: bool) -> Any:
    """The default of a field in Python's terms. None when there is none."""
    if not given:
        return None
    match shape, value:
        case Nullable(), None:
            return None
        case Plain("string"), str():
            return value
        case Plain("bytes"), str():
            return value.encode("latin-1")
        case Plain("boolean"), bool():
            return value
        case Plain("long" | "int"), int() if type(value) is int:
            limit = LONG_MAX if shape == Plain("long") else INT_MAX
            if -limit - 1 <= value <= limit:
                return value
        case Array(), []:
            return ()
        case _:
            pass
    raise Unsupported(f"{where}: {value!r} is no default the codecs can give")


def _records(shape: Shape) -> Iterator[Record]:
    match shape:
        case Plain():
            return
        case Nullable(inner):
            yield from _records(inner)
        case Array(items):
            yield from _records(items)
        case Record():
            for field in shape.fields:
                yield from _records(field.shape)
            yield shape
        case _:
            assert_never(shape)


def _meet(where: str, writer: Shape, reader: Shape) -> None:
    match writer, reader:
        case Plain(), Plain() if writer == reader:
            return
        case Nullable(), Nullable():
            _meet(where, writer.inner, reader.inner)
        case Array(), Array():
            _meet(f"{where}[]", writer.items, reader.items)
        case Record(), Record() if writer.name == reader.name:
            written = {field.name: field for field in writer.fields}
            for field in reader.fields:
                at = f"{where}.{field.name}"
                if field.name in written:
                    _meet(at, written[field.name].shape, field.shape)
                elif not field.has_default:
                    raise Unsupported(f"{at}: an older version lacks it, and it has no default")
        case _:
            raise Unsupported(f"{where}: another type in another version")
