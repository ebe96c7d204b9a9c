"""Messages to records or poison; the letter a poison becomes."""

from __future__ import annotations

from importlib.abc import Traversable
from importlib.resources import files
from typing import Any

import pytest
from confluent_kafka import Message

from projections.decoding import Decoder
from projections.models.playback import Decided, PlaybackProjection
from projections.offsets import Position
from schemas.events import CacheInvalidated
from schemas.ids import SchemaIds
from schemas.topics import PLAYBACK_DECIDED
from streams.runtime.clock import FakeClock
from streams.runtime.contract import Contract
from streams.runtime.deadletter import dead_letter_id
from streams.runtime.errors import Unavailable
from tests.projections.decisions import decision, key_of, partition_for

CONTRACT = Contract(SchemaIds(), registry=None)
EVENT = decision()
HOME = partition_for(EVENT)
POSITIONS = {partition: Position(partition, "topic-id", log_epoch=4) for partition in range(12)}


def message(key: bytes | None, value: bytes | None, *, partition: int = HOME, offset: int = 5) -> Message[Any, Any]:
    made: Message[Any, Any] = Message(
        topic=PLAYBACK_DECIDED.name,
        partition=partition,
        offset=offset,
        key=key,
        value=value,
        timestamp=(2, 1_000),
    )
    return made


def decoder() -> Decoder[Decided]:
    return Decoder(PlaybackProjection(), CONTRACT, FakeClock())


def test_a_good_message_becomes_a_record_with_its_version() -> None:
    decoded = decoder().decode([message(key_of(EVENT), CONTRACT.encode(EVENT))], POSITIONS)
    [record] = decoded.records
    assert record.event == EVENT
    assert (record.partition, record.offset, record.log_epoch, record.timestamp) == (HOME, 5, 4, 1_000)
    assert b"\0" + CONTRACT.encode(EVENT)[1:5] + record.body == CONTRACT.encode(EVENT)
    assert decoded.outcomes == [False]


OTHER_EVENT = CONTRACT.encode(
    CacheInvalidated(
        event_id="e", correlation_id="c", source_id="s", received_at=1, cache_key="k", model_epoch=1, log_epoch=1,
        partition=0, version=0,
    )
)  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "cause"),
    [
        (b"k", b"garbage", "bad_magic"),
        (b"k", b"\0\0\0\0\x63rest", "unknown_schema"),
        (key_of(EVENT), CONTRACT.encode(EVENT)[:-3], "truncated"),
        (key_of(EVENT), CONTRACT.encode(EVENT) + b"x", "trailing_bytes"),
        (None, CONTRACT.encode(EVENT), "null_key"),
        (key_of(EVENT), None, "null_value"),
        (b"k", b"x" * 262_144, "too_large"),
        (b"someone:else", CONTRACT.encode(EVENT), "key_mismatch"),
        (b"k", OTHER_EVENT, "wrong_event"),
    ],
)
def test_poison_is_told_from_its_neighbours_and_keeps_its_bytes(key: bytes, value: bytes, cause: str) -> None:
    good = message(key_of(EVENT), CONTRACT.encode(EVENT), offset=4)
    bad = message(key, value, offset=5)
    last = message(key_of(EVENT), CONTRACT.encode(EVENT), offset=6)
    worker = decoder()

    decoded = worker.decode([good, bad, last], POSITIONS)

    assert [record.offset for record in decoded.records] == [4, 6]
    assert decoded.outcomes == [False, True, False]
    [poison] = decoded.poison
    letter = worker.letter(poison, "topic-id", "projection.playback")
    assert (letter.key, letter.value) == (key, value)
    assert (letter.cause_class, letter.consumer, letter.offset) == (cause, "projection.playback", 5)
    assert letter.event_id == dead_letter_id("topic-id", HOME, 5, "projection.playback")
    record = worker.record_of(letter)
    assert record.key == f"{PLAYBACK_DECIDED.name}:{HOME}".encode()
    assert CONTRACT.decode(record.value) == letter


def test_a_record_that_could_be_decoded_keeps_its_correlation_in_its_letter() -> None:
    worker = decoder()
    [poison] = worker.decode([message(b"someone:else", CONTRACT.encode(EVENT))], POSITIONS).poison
    letter = worker.letter(poison, "topic-id", "projection.playback")
    assert (letter.correlation_id, letter.source_id) == ("c-1", "home")


def test_while_only_an_absent_registry_could_tell_nothing_is_poison() -> None:
    class Waiting(Contract):
        def decode(self, data: bytes) -> Any:
            raise Unavailable("registry away")

    worker = Decoder(PlaybackProjection(), Waiting(SchemaIds(), registry=None), FakeClock())
    with pytest.raises(Unavailable):
        worker.decode([message(key_of(EVENT), CONTRACT.encode(EVENT))], POSITIONS)


GARBAGE = sorted(files("schemas").joinpath("examples", "garbage").iterdir(), key=lambda entry: entry.name)


@pytest.mark.parametrize("entry", GARBAGE, ids=lambda entry: entry.name)
def test_every_piece_of_garbage_becomes_a_letter_of_its_cause(entry: Traversable) -> None:
    data = entry.read_bytes()
    worker = decoder()
    decoded = worker.decode([message(b"k", data)], POSITIONS)
    assert decoded.records == []
    [poison] = decoded.poison
    letter = worker.letter(poison, "topic-id", "projection.playback")
    assert letter.value == data
    assert letter.cause_class == entry.name.partition("--")[0]
    assert CONTRACT.decode(worker.record_of(letter).value) == letter
