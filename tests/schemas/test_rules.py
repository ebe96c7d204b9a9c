"""Our schemas keep our rules, and the rules refuse what they are there to refuse."""

from __future__ import annotations

import json
import re
import typing
from dataclasses import MISSING, fields
from typing import Any

import pytest

from schemas import rules
from schemas.codec.events import PLAN
from schemas.compatibility import check
from schemas.events import EVENTS
from schemas.topics import TOPICS, topic_of
from schemas.versions import newest, versions

HEADER: list[dict[str, Any]] = [
    {"name": "event_id", "type": "string", "doc": "d"},
    {"name": "correlation_id", "type": "string", "doc": "d"},
    {"name": "source_id", "type": "string", "doc": "d"},
    {"name": "occurred_at", "type": ["null", "long"], "default": None, "doc": "d"},
    {"name": "received_at", "type": "long", "doc": "d"},
]


def event(*more: dict[str, Any]) -> dict[str, Any]:
    fields = [{"doc": "d", **field} for field in more]
    return {"type": "record", "name": "E", "namespace": "playhead", "doc": "d", "fields": HEADER + fields}


def test_the_pinned_schemas_break_no_rule() -> None:
    assert check() == []


def test_a_plain_event_breaks_no_rule() -> None:
    assert rules.problems(event({"name": "x", "type": {"type": "array", "items": "string"}, "default": []}), "E") == []


EMPTY = {"type": "record", "name": "Empty", "fields": []}
HOLLOW = {"type": "record", "name": "H", "fields": [{"name": "n", "type": "null", "doc": "d", "default": None}]}


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        ({"name": "x", "type": "E"}, "recursive"),
        ({"name": "x", "type": ["null", "playhead.E"], "default": None}, "recursive"),
        ({"name": "x", "type": {"type": "array", "items": "E"}}, "recursive"),
        ({"name": "x", "type": {"type": "array", "items": "null"}}, "take no bytes"),
        ({"name": "x", "type": {"type": "map", "values": {"type": "null"}}}, "no Avro type|take no bytes"),
        ({"name": "x", "type": {"type": "array", "items": EMPTY}}, "take no bytes"),
        ({"name": "x", "type": {"type": "array", "items": HOLLOW}}, "take no bytes"),
        ({"name": "x", "type": {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}}, "no bytes"),
        ({"name": "x", "type": {"type": "enum", "name": "N", "symbols": ["A"]}}, "default among its symbols"),
        ({"name": "x", "type": {"type": "enum", "name": "N", "symbols": ["A"], "default": "B"}}, "default among"),
        ({"name": "x", "type": ["null", "string", "long"], "default": None}, "null and one other"),
        ({"name": "x", "type": ["string", "null"], "default": None}, "null and one other"),
        ({"name": "x", "type": ["null", "string"]}, "null as its default"),
        ({"name": "x", "type": ["null", "string"], "default": "y"}, "null as its default"),
        ({"name": "x", "type": "long", "default": "1"}, "no value of its type"),
        ({"name": "x", "type": "int", "default": 1 << 31}, "no value of its type"),
        ({"name": "x", "type": "boolean", "default": 0}, "no value of its type"),
        ({"name": "x", "type": {"type": "long", "logicalType": "timestamp-millis"}}, "logical"),
        ({"name": "x", "type": "Unheard"}, "no type known"),
        ({"name": "x", "type": "string", "doc": " "}, "has no doc"),
        ({"name": "x", "type": "string", "aliases": ["y"]}, "aliases"),
        ({"name": "event_id", "type": "string"}, "named twice"),
    ],
    ids=str,
)
def test_a_field_that_breaks_a_rule_is_named(field: dict[str, Any], complaint: str) -> None:
    found = rules.problems(event(field), "E")
    assert any(re.search(complaint, line) for line in found), found
    assert all(line.startswith("E.") for line in found)


def test_a_schema_that_is_no_event_is_named() -> None:
    assert rules.problems("string", "E") == ["E: not a record"]
    assert rules.problems({"type": "record", "name": "F", "namespace": "playhead", "fields": HEADER}, "E")
    assert rules.problems({"type": "record", "name": "E", "namespace": "playhead", "fields": HEADER[1:]}, "E")


PYTHON = {"string": str, "int": int, "long": int, "boolean": bool, "bytes": bytes}
CLASSES = {name: kind for coded in PLAN.coded for name, kind in coded.classes.items()}


def as_python(schema: Any) -> Any:
    match schema:
        case str():
            return PYTHON[schema]
        case ["null", other]:
            return as_python(other) | None
        case {"type": "array", "items": items}:
            inner: Any = as_python(items)
            return tuple[inner, ...]
        case {"type": "record"}:
            return CLASSES[schema["name"].rpartition(".")[2]]
        case _:
            raise AssertionError(schema)


def records_in(schema: Any) -> list[dict[str, Any]]:
    """The record that a type is of: itself, or inside a union or a list."""
    match schema:
        case ["null", inner] | {"type": "array", "items": inner}:
            return records_in(inner)
        case {"type": "record"}:
            return [schema]
        case _:
            return []


def assert_alike(schema: dict[str, Any], kind: Any) -> None:
    hints = typing.get_type_hints(kind)
    assert [field["name"] for field in schema["fields"]] == [field.name for field in fields(kind)]
    for wanted, got in zip(schema["fields"], fields(kind), strict=True):
        assert hints[got.name] == as_python(wanted["type"]), got.name
        for part in records_in(wanted["type"]):
            assert_alike(part, CLASSES[part["name"]])
        if got.default is MISSING:
            # Nested records are given whole; events may leave out what has a default.
            assert "default" not in wanted or kind.__name__ not in EVENTS, got.name
        else:
            default = list(got.default) if isinstance(got.default, tuple) else got.default
            assert "default" in wanted, got.name
            assert wanted["default"] == default, got.name


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_a_dataclass_and_its_newest_schema_agree_field_by_field(name: str) -> None:
    assert_alike(json.loads(newest(name).text), EVENTS[name])


def test_every_event_has_a_schema_and_one_topic_and_the_other_way_round() -> None:
    assert {schema.event for schema in versions()} == set(EVENTS)
    assert {event for topic in TOPICS for event in topic.holds} == set(EVENTS)
    assert len({topic.name for topic in TOPICS}) == len(TOPICS)
    for name in EVENTS:
        assert name in topic_of(name).holds
    with pytest.raises(KeyError):
        topic_of("Nothing")
