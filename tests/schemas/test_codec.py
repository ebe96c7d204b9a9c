"""The codec: what goes in comes out, golden bytes hold, and no bytes raise anything but a ContractError."""

from __future__ import annotations

import dataclasses
import json
from io import BytesIO
from typing import Any

import avro.io
import avro.schema
import pytest
from fastavro import parse_schema, schemaless_reader
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import WIRE_HEADER_BYTES, Codec, schema_id_of
from schemas.codec.avro_codec import decode_body
from schemas.errors import BadMagic, ContractError, InvalidValue, TooLarge, TrailingBytes, Truncated, UnknownSchemaId
from schemas.events import EVENTS, CacheInvalidated, DeadLetter, Event, PlaybackReported
from schemas.golden import Example, examples
from schemas.ids import SchemaIds
from schemas.limits import ID_BYTES_MAX, NOTES_MAX, TEXT_BYTES_MAX
from schemas.topics import DEAD_LETTER_BYTES_MAX
from schemas.versions import newest, versions
from tests.schemas.strategies import events

CODEC = Codec(SchemaIds())
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


def as_avro(event: Event) -> dict[str, Any]:
    """The event as both Avro libraries read it."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(event).items()
    }


@all_examples
def test_an_example_decodes_to_its_event(example: Example) -> None:
    assert CODEC.decode(example.wire) == example.event


@all_examples
def test_the_newest_version_is_written_byte_for_byte_as_its_example(example: Example) -> None:
    if example.schema is newest(example.schema.event):
        assert CODEC.encode(example.event) == example.wire


@all_examples
def test_fastavro_and_avro_agree_on_an_example(example: Example) -> None:
    by_fastavro = schemaless_reader(BytesIO(example.body), parse_schema(json.loads(example.schema.text)), None)
    schema = avro.schema.parse(example.schema.text)
    by_avro = avro.io.DatumReader(schema, schema).read(avro.io.BinaryDecoder(BytesIO(example.body)))
    assert by_fastavro == by_avro == as_avro(example.event)


@given(events())
def test_any_event_comes_back_equal(event: Event) -> None:
    assert CODEC.decode(CODEC.encode(event)) == event


@given(events())
@settings(max_examples=50)
def test_avro_writes_the_same_bytes(event: Event) -> None:
    schema = avro.schema.parse(newest(type(event).__name__).text)
    out = BytesIO()
    avro.io.DatumWriter(schema).write(as_avro(event), avro.io.BinaryEncoder(out))
    assert CODEC.encode(event)[WIRE_HEADER_BYTES:] == out.getvalue()


@given(events(), st.data())
@settings(max_examples=300)
def test_mutated_bytes_decode_or_raise_a_contract_error(event: Event, data: st.DataObject) -> None:
    wire = bytearray(CODEC.encode(event))
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
    assert_an_event_or_a_contract_error(bytes(wire))


@given(st.sampled_from(versions()), st.binary(max_size=200))
@settings(max_examples=300)
def test_random_bodies_decode_or_raise_a_contract_error(schema: Any, body: bytes) -> None:
    assert_an_event_or_a_contract_error(b"\0" + schema.pinned_id.to_bytes(4, "big") + body)


@pytest.mark.parametrize("event", sorted(EVENTS))
def test_every_single_bit_flip_of_an_example_decodes_or_raises_a_contract_error(event: str) -> None:
    wire = next(example.wire for example in examples() if example.name == f"{event}/v1/full")
    for bit in range(len(wire) * 8):
        flipped = bytearray(wire)
        flipped[bit // 8] ^= 1 << bit % 8
        assert_an_event_or_a_contract_error(bytes(flipped))


@all_examples
def test_every_shorter_piece_of_an_example_is_refused(example: Example) -> None:
    wire = example.wire
    for length in range(0, len(wire), max(1, len(wire) // 200)):
        with pytest.raises((BadMagic, Truncated)):
            CODEC.decode(wire[:length])


def assert_an_event_or_a_contract_error(wire: bytes) -> None:
    try:
        event = CODEC.decode(wire)
    except ContractError:
        return
    # What was taken can be written again: no value outside the contract slipped through.
    assert CODEC.decode(CODEC.encode(event)) == event


DECIDED = next(example.event for example in examples() if example.name == "PlaybackDecided/v1/minimal")


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
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() and len(value) < 20 else "",
)
def test_an_event_outside_the_limits_is_not_written(event: Event, field: str, value: object) -> None:
    wrong: dict[str, Any] = {field: value}
    with pytest.raises(InvalidValue):
        CODEC.encode(dataclasses.replace(event, **wrong))


def test_an_event_larger_than_its_topic_takes_is_neither_written_nor_read() -> None:
    letter = next(e.event for e in examples() if e.name == "DeadLetter/v1/minimal")
    assert isinstance(letter, DeadLetter)
    fits = dataclasses.replace(letter, value=bytes(DEAD_LETTER_BYTES_MAX - 500))
    assert CODEC.decode(CODEC.encode(fits)) == fits
    with pytest.raises(TooLarge):
        CODEC.encode(dataclasses.replace(letter, value=bytes(DEAD_LETTER_BYTES_MAX)))
    with pytest.raises(TooLarge):
        CODEC.decode(CODEC.encode(fits) + bytes(600))


def test_the_parts_of_the_wire_format_are_told_apart() -> None:
    wire = CODEC.encode(REPORT)
    assert schema_id_of(wire) == newest("PlaybackReported").pinned_id
    assert schema_id_of(b"") is None
    assert schema_id_of(b"\1" + wire[1:]) is None
    with pytest.raises(BadMagic):
        CODEC.decode(b"")
    with pytest.raises(TrailingBytes):
        CODEC.decode(wire + b"\0")
    with pytest.raises(UnknownSchemaId) as caught:
        CODEC.decode(b"\0\0\0\0\7" + wire[5:])
    assert caught.value.schema_id == 7


def test_a_record_of_an_older_version_is_read_with_the_defaults_of_the_newest() -> None:
    new = newest("CacheInvalidated")
    document = json.loads(new.text)
    document["fields"] = [field for field in document["fields"] if field["name"] not in {"reason", "occurred_at"}]
    older = dataclasses.replace(new, parsed=parse_schema(document, named_schemas={}), version=0)
    schema = avro.schema.parse(json.dumps(document))
    out = BytesIO()
    datum = {name: value for name, value in as_avro(STALE).items() if name not in {"reason", "occurred_at"}}
    avro.io.DatumWriter(schema).write(datum, avro.io.BinaryEncoder(out))
    assert decode_body(older, out.getvalue(), 0) == STALE


def test_a_record_of_a_newer_version_is_read_without_what_we_do_not_know() -> None:
    new = newest("CacheInvalidated")
    document = json.loads(new.text)
    document["fields"].insert(3, {"name": "later", "type": ["null", "string"], "default": None, "doc": "Later."})
    newer = dataclasses.replace(new, parsed=parse_schema(document, named_schemas={}), version=2)
    out = BytesIO()
    avro.io.DatumWriter(avro.schema.parse(json.dumps(document))).write(
        {**as_avro(STALE), "later": "x"}, avro.io.BinaryEncoder(out)
    )
    assert decode_body(newer, out.getvalue(), 0) == STALE
