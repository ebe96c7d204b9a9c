"""FULL_TRANSITIVE, offline: every version of an event can be read as every other one.

The same rule the registry enforces, so a breach shows before anything is registered. The test of one pair
follows the Avro 1.12 specification, "Schema Resolution"; the tests hold it against Avro's own checker.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from typing import Any

from schemas import rules
from schemas.versions import WriterSchema, versions

_PROMOTIONS: dict[str, frozenset[str]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


def check(schemas: Iterable[WriterSchema] | None = None) -> list[str]:
    """Everything wrong with the pinned schemas, as sentences: our rules, numbering, compatibility."""
    found: list[str] = []
    of_event: dict[str, list[WriterSchema]] = {}
    for schema in versions() if schemas is None else schemas:
        of_event.setdefault(schema.event, []).append(schema)
        found += [f"v{schema.version} {line}" for line in rules.problems(json.loads(schema.text), schema.event)]
    for event, all_of_it in of_event.items():
        numbers = [schema.version for schema in all_of_it]
        if numbers != list(range(1, len(numbers) + 1)):
            found.append(f"{event}: versions must be 1, 2, 3 …, they are {numbers}")
        if len({schema.fingerprint for schema in all_of_it}) != len(all_of_it):
            found.append(f"{event}: two versions are the same schema (defaults and docs do not tell them apart)")
        for reader, writer in permutations(all_of_it, 2):
            found += [
                f"{event}: v{reader.version} can't read v{writer.version}: {line}"
                for line in unreadable(json.loads(reader.text), json.loads(writer.text))
            ]
    return found


def unreadable(reader: Any, writer: Any) -> list[str]:
    """Why data written with ``writer`` can't be read with ``reader`` (both parsed JSON); empty when it can.

    For schemas without recursive types (``schemas/rules.py`` refuses those).
    """
    return list(_differences("", _Names(reader).resolved(), _Names(writer).resolved()))


class _Names:
    """A schema with every reference replaced by what it refers to, and every name written in full."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, Any] = {}

    def resolved(self) -> Any:
        return self._resolve(self._schema, "")

    def _resolve(self, schema: Any, namespace: str) -> Any:
        match schema:
            case str() if schema in _PRIMITIVES:
                return schema
            case str():
                return self._named[_full(schema, namespace)]
            case list():
                return [self._resolve(branch, namespace) for branch in schema]
            case {"type": "array", "items": items}:
                return {"type": "array", "items": self._resolve(items, namespace)}
            case {"type": "map", "values": values}:
                return {"type": "map", "values": self._resolve(values, namespace)}
            case {"type": "record" | "enum" | "fixed"}:
                name = _full(schema["name"], schema.get("namespace", namespace))
                out = {**schema, "name": name}
                if schema["type"] == "record":
                    inner = name.rpartition(".")[0]
                    out["fields"] = [
                        {**field, "type": self._resolve(field["type"], inner)} for field in schema["fields"]
                    ]
                self._named[name] = out
                return out
            case {"type": inner}:
                return self._resolve(inner, namespace)
            case _:
                raise ValueError(f"{schema!r} is no Avro type")


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _differences(where: str, reader: Any, writer: Any) -> Iterator[str]:
    match reader, writer:
        case _, list():
            for branch in writer:
                yield from _differences(where, reader, branch)
        case list(), _:
            if not any(_readable(branch, writer) for branch in reader):
                yield f"{where or 'top'}: {_kind(writer)} is none of the types of the union"
        case str(), str():
            if reader != writer and reader not in _PROMOTIONS.get(writer, frozenset()):
                yield f"{where or 'top'}: {writer} can't be read as {reader}"
        case {"type": "array"}, {"type": "array"}:
            yield from _differences(f"{where}[]", reader["items"], writer["items"])
        case {"type": "map"}, {"type": "map"}:
            yield from _differences(f"{where}[]", reader["values"], writer["values"])
        case {"type": str() as kind}, {"type": str() as other} if kind == other:
            if reader["name"] != writer["name"]:
                yield f"{where or 'top'}: {writer['name']} is not {reader['name']}"
            elif kind == "record":
                yield from _record(where, reader, writer)
            elif kind == "enum":
                unknown = set(writer["symbols"]) - set(reader["symbols"])
                if unknown and "default" not in reader:
                    yield f"{where or 'top'}: {', '.join(sorted(unknown))} unknown, and there is no default"
            elif reader["size"] != writer["size"]:
                yield f"{where or 'top'}: size {writer['size']} is not {reader['size']}"
        case _:
            yield f"{where or 'top'}: {_kind(writer)} can't be read as {_kind(reader)}"


def _record(where: str, reader: Mapping[str, Any], writer: Mapping[str, Any]) -> Iterator[str]:
    written = {field["name"]: field for field in writer["fields"]}
    for field in reader["fields"]:
        at = f"{where}.{field['name']}".lstrip(".")
        if field["name"] in written:
            yield from _differences(at, field["type"], written[field["name"]]["type"])
        elif "default" not in field:
            yield f"{at}: not written, and there is no default"


def _readable(reader: Any, writer: Any) -> bool:
    return next(_differences("", reader, writer), None) is None


def _kind(schema: Any) -> str:
    return schema if isinstance(schema, str) else str(schema.get("name", schema["type"]))
