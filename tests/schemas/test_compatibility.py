"""The offline check says what Avro's own checker says, and catches what FULL_TRANSITIVE is for."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import avro.schema
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from fastavro import parse_schema
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.compatibility import check, unreadable
from schemas.versions import WriterSchema, fingerprint_of, newest, versions

PRIMITIVES = ["boolean", "int", "long", "float", "double", "bytes", "string"]


def inner_types(depth: int) -> st.SearchStrategy[Any]:
    plain = st.sampled_from(PRIMITIVES)
    if depth == 0:
        return plain
    deeper = inner_types(depth - 1)
    return (
        plain
        | deeper.map(lambda items: {"type": "array", "items": items})
        | deeper.map(lambda values: {"type": "map", "values": values})
        | deeper.map(lambda other: ["null", other] if not isinstance(other, list) else other)
    )


FIELD = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b", "c"]), "type": inner_types(2)},
    optional={"default": st.just("filled in below")},
)


def _record(fields: list[dict[str, Any]], name: str) -> dict[str, Any]:
    out = []
    for field in fields:
        kind = field["type"]
        if "default" in field:
            match kind:
                case list():
                    default: Any = None
                case {"type": "array"}:
                    default = []
                case {"type": "map"}:
                    default = {}
                case "boolean":
                    default = False
                case "string" | "bytes":
                    default = ""
                case _:
                    default = 0
            field = {**field, "default": default}
        out.append(field)
    return {"type": "record", "name": name, "namespace": "n", "fields": out}


RECORDS = st.builds(
    _record, st.lists(FIELD, unique_by=lambda field: field["name"], max_size=3), st.sampled_from(["R", "R", "R", "S"])
)


@given(RECORDS, RECORDS)
@settings(max_examples=400)
def test_the_check_of_a_pair_agrees_with_avros_own(reader: dict[str, Any], writer: dict[str, Any]) -> None:
    verdict = ReaderWriterCompatibilityChecker().get_compatibility(
        avro.schema.parse(json.dumps(reader)), avro.schema.parse(json.dumps(writer))
    )
    assert (unreadable(reader, writer) == []) == (verdict.compatibility is SchemaCompatibilityType.compatible)


def test_the_pinned_schemas_are_fully_compatible() -> None:
    assert check(versions()) == []


def next_version(change: dict[str, Any] | None = None, without: str | None = None, version: int = 2) -> WriterSchema:
    """CacheInvalidated, evolved."""
    document = json.loads(newest("CacheInvalidated").text)
    document["fields"] = [field for field in document["fields"] if field["name"] != without]
    if change is not None:
        document["fields"] = [f for f in document["fields"] if f["name"] != change["name"]] + [{"doc": "d", **change}]
    return dataclasses.replace(
        newest("CacheInvalidated"),
        version=version,
        text=json.dumps(document),
        parsed=parse_schema(document, named_schemas={}),
        fingerprint=fingerprint_of(document),
    )


def test_a_field_with_a_default_may_come_and_go() -> None:
    added = next_version({"name": "later", "type": ["null", "string"], "default": None})
    removed = next_version(without="reason", version=3)
    assert check([newest("CacheInvalidated"), added, removed]) == []


@pytest.mark.parametrize(
    ("evolved", "complaint"),
    [
        (next_version({"name": "later", "type": "string"}), "v2 can't read v1: later: not written"),
        (next_version(without="cache_key"), "v1 can't read v2: cache_key: not written"),
        (next_version({"name": "partition", "type": "long"}), "v1 can't read v2: partition: long can't be read as int"),
        (next_version({"name": "reason", "type": "bytes", "default": ""}), ""),
        (next_version({"name": "version", "type": "string"}), "v1 can't read v2: version: string can't be read"),
        (next_version(version=3), "versions must be 1, 2, 3"),
        (next_version(), "two versions are the same schema"),
    ],
    ids=["no default", "removed", "widened", "bytes for string is Avro-compatible", "retyped", "gap", "same"],
)
def test_an_evolution_that_breaks_a_reader_is_named(evolved: WriterSchema, complaint: str) -> None:
    found = check([newest("CacheInvalidated"), evolved])
    if complaint:
        assert any(complaint in line for line in found), found
    else:
        assert found == []


def test_compatibility_is_transitive_not_only_with_the_last_version() -> None:
    first = newest("CacheInvalidated")
    second = next_version({"name": "later", "type": "long", "default": 0})
    third = next_version({"name": "later", "type": "string", "default": ""}, version=3)
    found = check([first, second, third])
    assert {line.split(":")[1].strip() for line in found} == {"v3 can't read v2", "v2 can't read v3"}


@pytest.mark.parametrize("schema", versions(), ids=lambda schema: f"{schema.event}.v{schema.version}")
def test_a_fingerprint_is_that_of_avros_canonical_form(schema: WriterSchema) -> None:
    from hashlib import sha256

    canonical = avro.schema.parse(schema.text).canonical_form
    assert sha256(canonical.encode()).hexdigest() == schema.fingerprint


def test_a_fingerprint_ignores_docs_and_defaults_and_sees_names_and_types() -> None:
    document = json.loads(newest("CacheInvalidated").text)
    same = json.loads(json.dumps(document))
    same["doc"] = "other words"
    same["fields"][0]["doc"] = "other words"
    assert fingerprint_of(same) == fingerprint_of(document)
    other = json.loads(json.dumps(document))
    other["fields"][0]["name"] = "event"
    assert fingerprint_of(other) != fingerprint_of(document)
    with pytest.raises(ValueError, match="not an Avro schema"):
        fingerprint_of("{")


def test_pinned_ids_differ_and_leave_room_for_a_registrys() -> None:
    ids = [schema.pinned_id for schema in versions()]
    assert len(set(ids)) == len(ids)
    assert all(1 << 30 <= schema_id < 1 << 31 for schema_id in ids)


PINNED = {
    "CacheInvalidated.v1": 0x4144403D,
    "DeadLetter.v1": 0x78039B83,
    "FinalizeContinued.v1": 0x6EEA5CCB,
    "ItemChanged.v1": 0x4E3A0A79,
    "ItemObserved.v1": 0x41CB87D7,
    "ItemRemovalObserved.v1": 0x42B7800F,
    "ItemStatusRequested.v1": 0x422B7BAE,
    "MediaAliased.v1": 0x71122535,
    "MediaMerged.v1": 0x41B34339,
    "MetadataRefreshRequested.v1": 0x76845771,
    "PathSkipped.v1": 0x5EC62C66,
    "PlaybackDecided.v1": 0x6063954D,
    "PlaybackDecided.v2": 0x7166D28D,
    "PlaybackReported.v1": 0x42ED9AD6,
    "ReconcileRequested.v1": 0x7A2F9027,
    "ScanCancelled.v1": 0x63C3138E,
    "ScanChanged.v1": 0x5B3E83B6,
    "ScanConfirmed.v1": 0x7F43DF03,
    "ScanFailed.v1": 0x643E17D9,
    "ScanListed.v1": 0x5231B8D8,
    "ScanRequested.v1": 0x4A325EE6,
    "ScanStarted.v1": 0x7BB6C541,
    "SourceHeld.v1": 0x53A25A99,
    "UserForgotten.v1": 0x5F647381,
}


def test_a_published_version_never_changes() -> None:
    """The log holds records under these ids for ever. A new version is a new file, never an edit."""
    assert {f"{s.event}.v{s.version}": s.pinned_id for s in versions()} == PINNED
