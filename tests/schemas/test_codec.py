"""The codec: what goes in comes out, golden bytes hold, and no bytes raise anything but a ContractError."""

from __future__ import annotations

import dataclasses
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import avro.io
import avro.schema
import pytest
from fastavro import parse_schema, schemaless_reader
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import WIRE_HEADER_BYTES, Codec, schema_id_of
from schemas.codec.compiled import Implementation
from schemas.codec.events import LIMITS, PLAN
from schemas.codec.plan import Coded, Plan
from schemas.errors import BadMagic, ContractError, InvalidValue, TooLarge, TrailingBytes, Truncated, UnknownSchemaId
from schemas.events import EVENTS, CacheInvalidated, DeadLetter, Event, PlaybackReported
from schemas.golden import Example, examples
from schemas.ids import SchemaIds
from schemas.library import CollectionRef, ItemObserved, ProviderId, ReasonCount
from schemas.limits import ID_BYTES_MAX, NOTES_MAX, TEXT_BYTES_MAX
from schemas.topics import DEAD_LETTER_BYTES_MAX
from schemas.versions import newest, versions
from tests.schemas.implementations import IMPLEMENTATIONS, coders_of
from tests.schemas.strategies import events

REPORT = PlaybackReported(
    event_id="e", correlation_id="c", source_id="s", received_at=1, user_ref="u", media_id="m", kind="progress"
)
STALE = CacheInvalidated(
    event_id="e",
    correlation_id="c",
    source_id="s",
    received_at=1,
    cache_key="k",
    model_epoch=1,
    log_epoch=1,
    partition=1,
    version=1,
)
all_examples = pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def codec(request: pytest.FixtureRequest) -> Codec:
    implementation: Implementation = request.param
    coders_of(PLAN, implementation)
    return Codec(SchemaIds(), implementation)


def as_avro(event: Event) -> dict[str, Any]:
    """The event as both Avro libraries read it."""
    datum: dict[str, Any] = _with_lists(dataclasses.asdict(event))
    return datum


def _with_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_lists(inner) for name, inner in value.items()}
    return [_with_lists(item) for item in value] if isinstance(value, tuple) else value


@all_examples
def test_an_example_decodes_to_its_event(codec: Codec, example: Example) -> None:
    assert codec.decode(example.wire) == example.event


@all_examples
def test_the_newest_version_is_written_byte_for_byte_as_its_example(codec: Codec, example: Example) -> None:
    if example.schema is newest(example.schema.event):
        assert codec.encode(example.event) == example.wire


@all_examples
def test_fastavro_and_avro_agree_on_an_example(example: Example) -> None:
    by_fastavro = schemaless_reader(BytesIO(example.body), parse_schema(json.loads(example.schema.text)), None)
    schema = avro.schema.parse(example.schema.text)
    by_avro = avro.io.DatumReader(schema, schema).read(avro.io.BinaryDecoder(BytesIO(example.body)))
    written = {field["name"] for field in json.loads(example.schema.text)["fields"]}
    assert by_fastavro == by_avro == {name: part for name, part in as_avro(example.event).items() if name in written}


@all_examples
def test_what_an_older_version_lacks_has_its_default(codec: Codec, example: Example) -> None:
    written = {field["name"] for field in json.loads(example.schema.text)["fields"]}
    read = codec.decode(example.wire)
    for field in dataclasses.fields(read):
        assert field.name in written or getattr(read, field.name) == field.default


@given(events())
def test_any_event_comes_back_equal(codec: Codec, event: Event) -> None:
    assert codec.decode(codec.encode(event)) == event


@given(events())
@settings(max_examples=50)
def test_avro_writes_the_same_bytes(codec: Codec, event: Event) -> None:
    schema = avro.schema.parse(newest(type(event).__name__).text)
    out = BytesIO()
    avro.io.DatumWriter(schema).write(as_avro(event), avro.io.BinaryEncoder(out))
    assert codec.encode(event)[WIRE_HEADER_BYTES:] == out.getvalue()


@given(events(), st.data())
@settings(max_examples=300)
def test_mutated_bytes_decode_or_raise_a_contract_error(codec: Codec, event: Event, data: st.DataObject) -> None:
    wire = bytearray(codec.encode(event))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(wire) - 1)))
        match data.draw(st.sampled_from(["flip", "set", "cut", "insert", "repeat"])):
            case "flip" if wire:
                wire[at] ^= 1 << data.draw(st.integers(0, 7))
            case "set" if wire:
                wire[at] = data.draw(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF]))
            case "cut":
                del wire[at:]
            case "insert":
                wire[at:at] = data.draw(st.binary(max_size=12))
            case _:
                wire[at:at] = wire[: data.draw(st.integers(0, 40))]
    assert_an_event_or_a_contract_error(codec, bytes(wire))


@given(st.sampled_from(versions()), st.binary(max_size=200))
@settings(max_examples=300)
def test_random_bodies_decode_or_raise_a_contract_error(codec: Codec, schema: Any, body: bytes) -> None:
    assert_an_event_or_a_contract_error(codec, b"\0" + schema.pinned_id.to_bytes(4, "big") + body)


@pytest.mark.parametrize("event", sorted(EVENTS))
def test_every_single_bit_flip_of_an_example_decodes_or_raises_a_contract_error(codec: Codec, event: str) -> None:
    wire = next(example.wire for example in examples() if example.name == f"{event}/v1/full")
    for bit in range(len(wire) * 8):
        flipped = bytearray(wire)
        flipped[bit // 8] ^= 1 << bit % 8
        assert_an_event_or_a_contract_error(codec, bytes(flipped))


@all_examples
def test_every_shorter_piece_of_an_example_is_refused(codec: Codec, example: Example) -> None:
    wire = example.wire
    for length in range(0, len(wire), max(1, len(wire) // 200)):
        with pytest.raises((BadMagic, Truncated)):
            codec.decode(wire[:length])


def assert_an_event_or_a_contract_error(codec: Codec, wire: bytes) -> None:
    try:
        event = codec.decode(wire)
    except ContractError:
        return
    # What was taken can be written again: no value outside the contract slipped through.
    assert codec.decode(codec.encode(event)) == event


DECIDED = next(example.event for example in examples() if example.name == "PlaybackDecided/v2/minimal")
OBSERVED = next(example.event for example in examples() if example.name == "ItemObserved/v1/full")
assert isinstance(OBSERVED, ItemObserved)
assert OBSERVED.details is not None
assert OBSERVED.locator is not None
DETAILS, LOCATOR = OBSERVED.details, OBSERVED.locator
LISTED = next(example.event for example in examples() if example.name == "ScanListed/v1/full")
COLLECTION, PROVIDER_ID = CollectionRef("album", "k", "n"), ProviderId("imdb", "tt1")
NOT_BYTES: Any = "text"
NO_COLLECTION: Any = None
NO_PROVIDER_ID: Any = COLLECTION


@pytest.mark.parametrize(
    ("event", "field", "value"),
    [
        (REPORT, "event_id", "x" * (ID_BYTES_MAX + 1)),
        (REPORT, "device_id", "é" * (ID_BYTES_MAX // 2 + 1)),
        (REPORT, "media_id", "a\0b"),
        (REPORT, "media_id", "\ud800"),
        (REPORT, "media_id", None),
        (REPORT, "position_ms", 1 << 63),
        (REPORT, "position_ms", 1.5),
        (REPORT, "position_ms", True),
        (REPORT, "automated", 1),
        (STALE, "partition", 1 << 31),
        (STALE, "cache_key", "x" * (TEXT_BYTES_MAX + 1)),
        (STALE, "version", "1"),
        (DECIDED, "notes", ("n",) * (NOTES_MAX + 1)),
        (DECIDED, "notes", "note"),
        (DECIDED, "cause", None),
        (DECIDED, "pending", STALE),
        (DECIDED, "joined", ("m",) * (NOTES_MAX + 1)),
        (DECIDED, "joined", ("x" * (ID_BYTES_MAX + 1),)),
        (OBSERVED, "locator", DETAILS),
        (OBSERVED, "locator", dataclasses.replace(LOCATOR, path=NOT_BYTES)),
        (OBSERVED, "locator", dataclasses.replace(LOCATOR, inode=1 << 63)),
        (OBSERVED, "details", LOCATOR),
        (OBSERVED, "details", dataclasses.replace(DETAILS, year=1 << 31)),
        (OBSERVED, "details", dataclasses.replace(DETAILS, title="x" * (TEXT_BYTES_MAX + 1))),
        (OBSERVED, "details", dataclasses.replace(DETAILS, content_hash="x" * (ID_BYTES_MAX + 1))),
        (OBSERVED, "details", dataclasses.replace(DETAILS, artists=("a",) * (NOTES_MAX + 1))),
        (OBSERVED, "details", dataclasses.replace(DETAILS, artists=("x" * (TEXT_BYTES_MAX + 1),))),
        (OBSERVED, "details", dataclasses.replace(DETAILS, provider_ids=(PROVIDER_ID,) * (NOTES_MAX + 1))),
        (OBSERVED, "details", dataclasses.replace(DETAILS, provider_ids=(NO_PROVIDER_ID,))),
        (OBSERVED, "details", dataclasses.replace(DETAILS, collections=(NO_COLLECTION,))),
        (OBSERVED, "details", dataclasses.replace(DETAILS, collections=(CollectionRef("album", "k" * 257, "n"),))),
        (LISTED, "skipped", (ReasonCount("hidden", 1),) * (NOTES_MAX + 1)),
        (LISTED, "skipped", ReasonCount("hidden", 1)),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() and len(value) < 20 else "",
)
def test_an_event_outside_the_limits_is_not_written(codec: Codec, event: Event, field: str, value: object) -> None:
    wrong: dict[str, Any] = {field: value}
    with pytest.raises(InvalidValue):
        codec.encode(dataclasses.replace(event, **wrong))


def test_every_list_of_an_event_takes_as_many_as_the_contract_says(codec: Codec) -> None:
    details = dataclasses.replace(
        DETAILS,
        artists=("x" * TEXT_BYTES_MAX,) * NOTES_MAX,
        provider_ids=(PROVIDER_ID,) * NOTES_MAX,
        collections=(dataclasses.replace(COLLECTION, key="k" * ID_BYTES_MAX, name="n" * TEXT_BYTES_MAX),) * NOTES_MAX,
    )
    assert isinstance(OBSERVED, ItemObserved)
    full = dataclasses.replace(OBSERVED, details=details)
    assert codec.decode(codec.encode(full)) == full


def test_an_event_larger_than_its_topic_takes_is_neither_written_nor_read(codec: Codec) -> None:
    letter = next(e.event for e in examples() if e.name == "DeadLetter/v1/minimal")
    assert isinstance(letter, DeadLetter)
    fits = dataclasses.replace(letter, value=bytes(DEAD_LETTER_BYTES_MAX - 500))
    assert codec.decode(codec.encode(fits)) == fits
    with pytest.raises(TooLarge):
        codec.encode(dataclasses.replace(letter, value=bytes(DEAD_LETTER_BYTES_MAX)))
    with pytest.raises(TooLarge):
        codec.decode(codec.encode(fits) + bytes(600))


def test_the_parts_of_the_wire_format_are_told_apart(codec: Codec) -> None:
    wire = codec.encode(REPORT)
    assert schema_id_of(wire) == newest("PlaybackReported").pinned_id
    assert schema_id_of(b"") is None
    assert schema_id_of(b"\1" + wire[1:]) is None
    with pytest.raises(BadMagic):
        codec.decode(b"")
    with pytest.raises(TrailingBytes):
        codec.decode(wire + b"\0")
    with pytest.raises(UnknownSchemaId) as caught:
        codec.decode(b"\0\0\0\0\7" + wire[5:])
    assert caught.value.schema_id == 7


def body_of(schema: str, datum: dict[str, Any]) -> bytes:
    """``datum`` as the other Avro library writes it."""
    out = BytesIO()
    avro.io.DatumWriter(avro.schema.parse(schema)).write(datum, avro.io.BinaryEncoder(out))
    return out.getvalue()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_records_of_older_and_newer_versions_are_read_as_the_one_we_know(
    implementation: Implementation, tmp_path: Path
) -> None:
    """The older one lacks two fields, which get their defaults; of the newer one we drop what we do not know."""
    new = newest("CacheInvalidated")
    older, newer = json.loads(new.text), json.loads(new.text)
    older["fields"] = [field for field in older["fields"] if field["name"] not in {"reason", "occurred_at"}]
    later = {
        "type": "record",
        "name": "Later",
        "fields": [{"name": "texts", "type": {"type": "array", "items": "string"}}],
    }
    newer["fields"].insert(3, {"name": "later", "type": ["null", later], "default": None})
    versions = {1: json.dumps(older), 2: new.text, 3: json.dumps(newer)}
    plan = Plan(
        "schemas.codec", (Coded("CacheInvalidated", versions, 2, {"CacheInvalidated": CacheInvalidated}),), LIMITS
    )
    decode = coders_of(plan, implementation, tmp_path).decode

    known = {name: value for name, value in as_avro(STALE).items() if name not in {"reason", "occurred_at"}}
    assert decode["CacheInvalidated", 1](body_of(versions[1], known), 0) == STALE
    assert decode["CacheInvalidated", 2](body_of(versions[2], as_avro(STALE)), 0) == STALE
    longest = {"texts": ["x" * 5_000] * 20}
    body = body_of(versions[3], {**as_avro(STALE), "later": longest})
    assert decode["CacheInvalidated", 3](body, 0) == STALE
    for length in range(len(body)):
        with pytest.raises(Truncated):
            decode["CacheInvalidated", 3](body[:length], 0)
    with pytest.raises(InvalidValue):
        decode["CacheInvalidated", 3](body.replace(b"xxxx", b"xx\xffx", 1), 0)
