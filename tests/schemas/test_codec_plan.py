"""What codecs are not made for is refused loudly: schemas, versions and classes alike."""

from __future__ import annotations

import json
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from schemas.codec.generate import source_of
from schemas.codec.plan import Coded, Plan, kind_of
from schemas.codec.shape import Array, Nullable, Plain, Record, Unsupported, shape_of
from schemas.events import CacheInvalidated


def record(*fields: Any, name: str = "Thing") -> str:
    """A schema of fields f0, f1 …, given as their types or whole."""
    made = [entry if "name" in entry else {"name": f"f{at}", **entry} for at, entry in enumerate(map(_field, fields))]
    return json.dumps({"type": "record", "name": name, "fields": made})


def _field(entry: Any) -> dict[str, Any]:
    return entry if isinstance(entry, dict) and "kind" not in entry and "of" in entry else {"type": entry}


def array_of(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


INNER = {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": "long"}]}


def test_the_types_we_use_are_understood() -> None:
    shape = shape_of(record("string", ["null", "long"], array_of("bytes"), INNER, ["null", "Inner"], {"type": "int"}))
    inner = Record("Inner", (shape.fields[3].shape.fields[0],)) if isinstance(shape.fields[3].shape, Record) else None
    assert [field.shape for field in shape.fields] == [
        Plain("string"),
        Nullable(Plain("long")),
        Array(Plain("bytes")),
        inner,
        Nullable(inner) if inner else None,
        Plain("int"),
    ]


@pytest.mark.parametrize(
    "refused",
    [
        "null",
        "float",
        "double",
        "Unknown",
        ["long", "null"],
        ["null", "long", "string"],
        ["null", ["null", "long"]],
        ["null"],
        {"type": "map", "values": "long"},
        {"type": "enum", "name": "E", "symbols": ["A"]},
        {"type": "fixed", "name": "F", "size": 4},
        {"type": "long", "logicalType": "timestamp-millis"},
        {"type": "record", "name": "Empty", "fields": []},
        {"type": "record", "name": "Thing", "fields": [{"name": "a", "type": "long"}]},
        ["null", "Thing"],
        array_of("Thing"),
        array_of("null"),
        array_of({"type": "record", "name": "Empty", "fields": []}),
        {"type": "record", "name": "Twice", "fields": [{"name": "a", "type": "long"}, {"name": "a", "type": "long"}]},
        {"type": "record", "name": "Odd", "fields": [{"name": "a; import os", "type": "long"}]},
        {"type": "record", "name": "Odd;", "fields": [{"name": "a", "type": "long"}]},
    ],
    ids=json.dumps,
)
def test_a_type_no_codec_is_made_for_is_refused(refused: Any) -> None:
    with pytest.raises(Unsupported):
        shape_of(record("long", refused))


def test_what_is_no_record_is_refused() -> None:
    for schema in ('"long"', '["null", "long"]', '{"type": "array", "items": "long"}'):
        with pytest.raises(Unsupported):
            shape_of(schema)


@pytest.mark.parametrize(
    ("type_", "default"),
    [
        ("long", 1 << 63),
        ("int", 1 << 31),
        ("long", True),
        ("string", 1),
        ("boolean", 0),
        (array_of("long"), [1]),
        (INNER, {}),
    ],
    ids=str,
)
def test_a_default_that_can_not_be_given_is_refused(type_: Any, default: Any) -> None:
    document = json.loads(record("long"))
    document["fields"].append({"name": "more", "type": type_, "default": default})
    with pytest.raises(Unsupported):
        shape_of(json.dumps(document))


def test_a_version_that_can_not_be_read_as_the_newest_is_refused() -> None:
    newest = record("long", "string")
    for older in (
        record("long"),
        record("string", "string"),
        record(["null", "long"], "string"),
        record("int", "string"),
    ):
        coded = Coded("Thing", {1: older, 2: newest}, 2, {"Thing": Two})
        with pytest.raises(Unsupported):
            source_of(Plan("schemas.codec", (coded,), None))


class Two(NamedTuple):
    f0: int
    f1: str


@dataclass(frozen=True, slots=True)
class TwoSlots:
    f0: int
    f1: str


@dataclass(frozen=True)
class WithDict:
    f0: int
    f1: str


@dataclass(frozen=True, slots=True)
class WithPostInit:
    f0: int
    f1: str

    def __post_init__(self) -> None:
        raise AssertionError


@dataclass(frozen=True, slots=True)
class Derived(TwoSlots):
    f2: int = 0


@dataclass(frozen=True, slots=True)
class MadeByItself:
    f0: int
    f1: str = field(init=False, default="")


@dataclass(frozen=True, slots=True)
class WithNew:
    f0: int
    f1: str

    def __new__(cls, *args: Any) -> WithNew:
        raise AssertionError


class DerivedTuple(Two):
    pass


@dataclass(frozen=True, slots=True)
class OtherNames:
    f0: int
    g1: str


@pytest.mark.parametrize(
    "kind", [WithDict, WithPostInit, Derived, MadeByItself, WithNew, DerivedTuple, int, dict, object]
)
def test_a_class_that_its_init_makes_more_of_is_refused(kind: type[Any]) -> None:
    with pytest.raises(Unsupported):
        kind_of(kind)


@pytest.mark.parametrize("classes", [{}, {"Thing": OtherNames}, {"Thing": CacheInvalidated}, {"Other": Two}])
def test_a_plan_without_the_right_class_is_refused(classes: dict[str, type[Any]]) -> None:
    coded = Coded("Thing", {1: record("long", "string")}, 1, classes)
    with pytest.raises(Unsupported):
        source_of(Plan("schemas.codec", (coded,), None))


def test_dataclasses_with_slots_and_named_tuples_are_taken() -> None:
    assert kind_of(TwoSlots) == "slots"
    assert kind_of(Two) == "tuple"
    assert kind_of(namedtuple("Pair", "a b")) == "tuple"
