"""Rows of the library table: pinned bytes, and schemas that have what the rows have."""

from __future__ import annotations

import json
import types
import typing
from pathlib import Path
from typing import Any

import pytest

from schemas.library import CollectionRef, ItemDetails, ProviderId, ReasonCount
from streams.agents import library_state as rows
from streams.agents.library_state.plan import PLAN, TAGS
from streams.domain.library.rows import (
    Alias,
    Bucket,
    Item,
    Mark,
    Named,
    Pending,
    Row,
    Scan,
    Sight,
    Skip,
    Source,
    Tally,
)
from tests.schemas.implementations import IMPLEMENTATIONS, coders_of

DETAILS = ItemDetails(
    version=3,
    content_hash="h",
    media_kind="video",
    item_kind="episode",
    title="T",
    duration_ms=60_000,
    year=1999,
    number=2,
    part=None,
    artists=("A", "B"),
    provider_ids=(ProviderId("imdb", "tt1"),),
    collections=(CollectionRef("series", "k", "S"),),
)
SCAN = Scan(
    300, "operator", 301, 302, "held", "root_changed", 8, True, "assess", b"pa\xff", (ReasonCount("hidden", 4),)
)

FILES = sorted((Path(__file__).parent / "golden" / "library").glob("v*/*.hex"))

#: The bytes of version 1. They never change: state outlives the build that wrote it.
GOLDEN: dict[str, Row] = {
    (
        "0101046d310e70726573656e7401000e02d804040a70612fc3a90870612fff00020206020268020a766964656f020e657069"
        "736f646502025402c0a907029e1f0204000402410242000208696d64620674743100020c736572696573026b025300020277"
        "02046d3200"
    ): Item("m1", "present", True, False, 7, 300, ("pa/é".encode(), b"pa/\xff"), DETAILS, "w", ("m2",)),
    "0101046d320e6d697373696e670001000000000000": Item("m2", "missing", False, True, 0, None, (), None, None, ()),
    "0102046d31da040adc04010206612f6202d00f0201020e0210": Sight("m1", 301, 5, 302, True, b"a/b", 1_000, -1, 7, 8),
    "0102046d31da040adc04000000000000": Sight("m1", 301, 5, 302, False, None, None, None, None, None),
    "010304046d31046d3200": Named(("m1", "m2")),
    "0104046d31": Alias("m1"),
    (
        "0105da04dc04de040202610202020402060208020206020268020a766964656f020e657069736f646502025402c0a907029e"
        "1f0204000402410242000208696d64620674743100020c736572696573026b02530002046d3100"
    ): Pending(301, 302, 303, b"a", 1, 2, 3, 4, DETAILS, ("m1",)),
    "0105da04dc04de0400000000000000": Pending(301, 302, 303, None, None, None, None, None, None, ()),
    "0106da040114756e7265616461626c65": Skip(301, True, "unreadable"),
    "0107da04": Mark(301),
    (
        "010801d80402d60402d40401020a040002d804106f70657261746f72da04dc040868656c640218726f6f745f6368616e6765"
        "6410010c617373657373067061ff020c68696464656e0800"
    ): Source(True, 300, 299, 298, True, (Bucket(5, 2),), SCAN),
    "010800000000000000": Source(False, 0, None, None, False, (), None),
    "010902040601080a0c0e101214": Tally(1, 2, 3, True, 4, 5, 6, 7, 8, 9, 10),
}


def test_every_kind_of_row_has_a_pinned_example_and_a_tag_of_its_own() -> None:
    assert {type(row) for row in GOLDEN.values()} == set(TAGS) == set(typing.get_args(Row))
    assert {row: TAGS[row] for row in typing.get_args(Row)} == {
        Item: 1, Sight: 2, Named: 3, Alias: 4, Pending: 5, Skip: 6, Mark: 7, Source: 8, Tally: 9,
    }  # fmt: skip


@pytest.mark.parametrize(("data", "row"), GOLDEN.items(), ids=lambda value: type(value).__name__.lower())
def test_given_a_row_of_version_1_its_bytes_are_pinned(data: str, row: Row) -> None:
    assert rows.decode(bytes.fromhex(data)) == row
    assert rows.encode(row).hex() == data


@pytest.mark.parametrize("file", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_given_a_row_of_any_version_it_is_read_as_it_was_meant(file: Path) -> None:
    data = bytes.fromhex(file.read_text("ascii"))
    row = rows.decode(data)
    assert repr(row) == file.with_suffix(".txt").read_text("utf-8").strip()
    assert file.stem.partition("-")[0] == type(row).__name__
    if file.parent.name == f"v{rows.VERSION}":
        assert rows.encode(row) == data


def test_every_kind_of_row_is_among_the_files_of_every_version() -> None:
    for version in range(1, rows.VERSION + 1):
        there = {file.stem.partition("-")[0] for file in FILES if file.parent.name == f"v{version}"}
        assert there == {kind.__name__ for kind in TAGS}


@pytest.mark.parametrize("row", GOLDEN.values(), ids=lambda row: type(row).__name__.lower())
def test_given_either_codec_the_bytes_are_the_same(row: Row) -> None:
    name, tag = type(row).__name__, TAGS[type(row)]
    for implementation in IMPLEMENTATIONS:
        coders = coders_of(PLAN, implementation)
        data = coders.encode[name](row, bytes((1, tag)))
        assert data == rows.encode(row)
        assert coders.decode[name, 1](data, 2) == row


@pytest.mark.parametrize("row", GOLDEN.values(), ids=lambda row: type(row).__name__.lower())
def test_given_a_row_of_a_newer_build_it_is_refused_and_damage_is_called_damage(row: Row) -> None:
    data = rows.encode(row)
    for newer in (bytes((rows.VERSION + 1,)) + data[1:], b"\xff" + data[1:], b"\2\x63new"):
        with pytest.raises(rows.UnknownStateVersion, match="Upgrade Playhead"):
            rows.decode(newer)
    for damaged in (b"", data[:1], data[:-1], data + b"\0", data[:1] + b"\x63" + data[2:]):
        with pytest.raises(rows.DamagedRow):
            rows.decode(damaged)


@pytest.mark.parametrize("kind", TAGS, ids=lambda kind: kind.__name__.lower())
def test_the_schema_has_the_fields_of_the_row_in_their_order_and_type(kind: type[Any]) -> None:
    document = json.loads((Path(rows.__file__).parent / f"{kind.__name__}.v{rows.VERSION}.avsc").read_text("utf-8"))
    assert document["fields"] == _fields(kind, set())


def test_given_a_row_it_is_readable_as_json_by_its_name_and_those_of_its_fields() -> None:
    for row in GOLDEN.values():
        shown = json.loads(json.dumps(rows.readable(rows.encode(row))))
        assert list(shown) == ["row", *type(row).__dataclass_fields__]
        assert shown["row"] == type(row).__name__.lower()
    item = next(row for row in GOLDEN.values() if isinstance(row, Item))
    shown = json.loads(json.dumps(rows.readable(rows.encode(item))))
    assert shown["places"] == ["pa/é", "pa/\\xff"]
    assert shown["details"]["provider_ids"] == [{"provider": "imdb", "id": "tt1"}]


def _fields(kind: Any, seen: set[str]) -> list[dict[str, Any]]:
    hints = typing.get_type_hints(kind)
    return [{"name": name, "type": _avro(hints[name], seen, name)} for name in kind.__dataclass_fields__]


def _avro(hint: Any, seen: set[str], name: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (argument for argument in typing.get_args(hint) if argument is not type(None))
        return ["null", _avro(inner, seen, name)]
    if origin is tuple:
        return {"type": "array", "items": _avro(typing.get_args(hint)[0], seen, name)}
    if hint is int and name in ("year", "number", "part"):
        return "int"  # as in the contract
    plain: dict[Any, str] = {int: "long", str: "string", bool: "boolean", bytes: "bytes"}
    if hint in plain:
        return plain[hint]
    if hint.__name__ in seen:
        return hint.__name__
    seen.add(hint.__name__)
    return {"type": "record", "name": hint.__name__, "fields": _fields(hint, seen)}
