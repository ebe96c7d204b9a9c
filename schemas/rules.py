"""What an event schema of ours may look like, beyond being valid Avro. Offline; ``problems`` names each breach.

The rules keep decoding bounded and evolution possible. A recursive type lets 5 kB of nested bytes overrun the C
stack of fastavro's reader; an array of a zero-size item lets 5 bytes claim ten million items; an enum without a
default can never gain a symbol; a union of more than null and one type has no natural Python value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

NAMESPACE = "playhead"
HEADER = ("event_id", "correlation_id", "source_id", "occurred_at", "received_at")
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_RANGES = {"int": 1 << 31, "long": 1 << 63}


def problems(schema: Any, event: str) -> list[str]:
    """Everything wrong with ``schema`` (parsed JSON) as the schema of ``event``; empty when nothing is."""
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        return [f"{event}: not a record"]
    found = []
    if (schema.get("namespace"), schema.get("name")) != (NAMESPACE, event):
        found.append(f"{event}: must be named {NAMESPACE}.{event}")
    names = tuple(field.get("name") for field in schema.get("fields", ()))
    if names[: len(HEADER)] != HEADER:
        found.append(f"{event}: must begin with the header fields {', '.join(HEADER)}")
    found += _Walk().type_of(event, schema)
    return found


class _Walk:
    """One pass over one schema; remembers the named types, finished and unfinished."""

    def __init__(self) -> None:
        self._named: dict[str, Mapping[str, Any]] = {}
        self._open: list[str] = []

    def type_of(self, where: str, schema: Any) -> Iterator[str]:
        match schema:
            case str() if schema in _PRIMITIVES:
                pass
            case str():
                yield from self._reference(where, schema)
            case list():
                yield from self._union(where, schema)
            case {"type": "record"}:
                yield from self._record(where, schema)
            case {"type": "enum"}:
                self._named[_short(schema)] = schema
                if schema.get("default") not in schema.get("symbols", ()):
                    yield f"{where}: an enum needs a default among its symbols"
            case {"type": "fixed"}:
                self._named[_short(schema)] = schema
            case {"type": "array", "items": items} | {"type": "map", "values": items}:
                yield from self.type_of(f"{where}[]", items)
                if self._zero_size(items):
                    yield f"{where}: its items take no bytes, so a few bytes could claim millions of them"
            case {"type": str() as inner} if inner in _PRIMITIVES:
                if "logicalType" in schema:
                    yield f"{where}: logical types are slow to read; use the plain number and say its unit"
            case _:
                yield f"{where}: {schema!r} is no Avro type"

    def _reference(self, where: str, name: str) -> Iterator[str]:
        short = name.rpartition(".")[2]
        if short in self._open:
            yield f"{where}: refers to {name} inside itself; recursive types are not allowed"
        elif short not in self._named:
            yield f"{where}: {name} is no type known here"

    def _union(self, where: str, branches: list[Any]) -> Iterator[str]:
        if len(branches) != 2 or branches[0] != "null" or branches[1] == "null":
            yield f"{where}: a union must be null and one other type, in this order"
        for branch in branches:
            if isinstance(branch, list):
                yield f"{where}: a union inside a union"
            else:
                yield from self.type_of(where, branch)

    def _record(self, where: str, schema: Mapping[str, Any]) -> Iterator[str]:
        short = _short(schema)
        if short in self._named or short in self._open:
            yield f"{where}: {short} is defined twice"
        self._open.append(short)
        seen: set[str] = set()
        for field in schema.get("fields", ()):
            name = str(field.get("name"))
            at = f"{where}.{name}"
            if name in seen:
                yield f"{at}: named twice"
            seen.add(name)
            if not str(field.get("doc") or "").strip():
                yield f"{at}: has no doc"
            if "aliases" in field:
                yield f"{at}: aliases are not used; add a field instead"
            yield from self.type_of(at, field.get("type"))
            yield from self._default(at, field)
        self._open.pop()
        self._named[short] = schema

    def _default(self, where: str, field: Mapping[str, Any]) -> Iterator[str]:
        kind = field.get("type")
        if isinstance(kind, list) and ("default" not in field or field["default"] is not None):
            yield f"{where}: what may be null must have null as its default"
        elif not isinstance(kind, list) and "default" in field and not _fits(kind, field["default"]):
            yield f"{where}: {field['default']!r} is no value of its type"

    def _zero_size(self, schema: Any) -> bool:
        """Whether a value of this type may take no bytes at all. Unions and enums take one for the branch."""
        match schema:
            case "null" | {"type": "null"}:
                return True
            case str() if schema not in _PRIMITIVES:
                named = self._named.get(schema.rpartition(".")[2])
                return named is not None and self._zero_size(named)
            case {"type": "fixed"}:
                return int(schema.get("size", 0)) <= 0
            case {"type": "record"}:
                return all(self._zero_size(field.get("type")) for field in schema.get("fields", ()))
            case _:
                return False


def _short(schema: Mapping[str, Any]) -> str:
    return str(schema.get("name")).rpartition(".")[2]


def _fits(kind: Any, value: Any) -> bool:
    match kind:
        case {"type": str() as inner} if inner in _PRIMITIVES:
            return _fits(inner, value)
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            return type(value) is int and -_RANGES[kind] <= value < _RANGES[kind]
        case "float" | "double":
            return type(value) in (int, float)
        case "string" | "bytes":
            return isinstance(value, str)
        case {"type": "array", "items": items}:
            return isinstance(value, list) and all(_fits(items, item) for item in value)
        case {"type": "map"}:
            return bool(value == {})
        case {"type": "enum", "symbols": symbols}:
            return bool(value in symbols)
        case _:
            # Records, fixed and references: nothing of ours has such a default.
            return False
