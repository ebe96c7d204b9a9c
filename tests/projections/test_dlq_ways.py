"""What redriving a letter means, by who gave the record up."""

from __future__ import annotations

from typing import Any

import pytest

from projections.dlq.desk import Letter
from projections.dlq.ways import HEADER, Append, Cannot, Reread, Revive, Way, said, way_of
from schemas.events import DeadLetter
from schemas.ids import SchemaIds
from schemas.library import MetadataRefreshRequested, ScanRequested
from schemas.placement import partition_of
from schemas.topics import LIBRARY_COMMANDS, LIBRARY_OBSERVED, MEDIA_MERGED, PLAYBACK_DECIDED, PLAYBACK_REPORTED
from streams.runtime.clock import FakeClock
from streams.runtime.contract import Contract
from streams.runtime.deadletter import KEY_BYTES_MAX, dead_letter
from streams.runtime.errors import Permanent

CONTRACT, CLOCK = Contract(SchemaIds(), registry=None), FakeClock()
USER = "a" * 32


def letter(**changes: Any) -> DeadLetter:
    named: dict[str, Any] = {
        "topic": PLAYBACK_REPORTED.name,
        "topic_id": "t",
        "partition": 3,
        "offset": 7,
        "key": f"{USER}:media".encode(),
        "value": b"bytes",
        "error": Permanent("no", cause="rejected"),
        "consumer": "agent.playback",
        "attempts": 1,
        "clock": CLOCK,
        "correlation_id": "c",
        "source_id": "shelf",
    }
    return dead_letter(**named | changes)


def listed(original: DeadLetter) -> Letter:
    return Letter(
        letter_id=original.event_id,
        topic=original.topic,
        topic_id=original.topic_id,
        topic_partition=original.partition,
        topic_offset=original.offset,
        consumer=original.consumer,
        cause_class=original.cause_class,
        error_class=original.error_class,
        error_text=original.error_text,
        source_id=original.source_id,
        correlation_id=original.correlation_id,
        schema_id=None,
        key_bytes=None,
        value_bytes=None,
        attempts=1,
        failed_at=0,
        logged_at=0,
        partition=0,
        version=0,
        status="open",
        actor=None,
        reason="",
        marked_at=None,
        sent_topic=None,
        sent_partition=None,
        sent_from=None,
        sent_offset=None,
        failures=0,
        last_error=None,
    )


def way(original: DeadLetter, *, gone: bool = False) -> Way:
    return way_of(listed(original), None if gone else original, CONTRACT, CLOCK)


@pytest.mark.parametrize(
    ("topic", "key", "partition"),
    [
        (PLAYBACK_REPORTED, f"{USER}:media".encode(), partition_of(USER.encode())),
        (PLAYBACK_REPORTED, USER.encode(), partition_of(USER.encode())),
        (LIBRARY_OBSERVED, b"shelf", partition_of(b"shelf")),
        (MEDIA_MERGED, b"media", 3),
    ],
    ids=["a person's", "a person", "a source's", "a copy of every partition"],
)
def test_an_agents_input_goes_where_its_topic_places_it_with_the_letters_name(
    topic: Any, key: bytes, partition: int
) -> None:
    original = letter(topic=topic.name, key=key)
    found = way(original)
    assert isinstance(found, Append)
    record = found.record
    assert (record.topic, record.partition, record.key, record.value) == (topic.name, partition, key, b"bytes")
    assert record.headers == ((HEADER, original.event_id.encode()),)


def test_a_projections_record_is_read_again_and_never_appended() -> None:
    for gone in (False, True):
        found = way(letter(topic=PLAYBACK_DECIDED.name, consumer="projection.playback"), gone=gone)
        assert found == Reread("playback")


@pytest.mark.parametrize(("kind", "event"), [("scan", ScanRequested), ("metadata", MetadataRefreshRequested)])
def test_a_library_task_is_asked_for_again_in_the_log(kind: str, event: type) -> None:
    found = way(letter(topic=LIBRARY_COMMANDS.name, key=b"shelf", value=None, consumer=f"work.{kind}"), gone=True)
    assert isinstance(found, Append)
    command = CONTRACT.decode(found.record.value)
    assert isinstance(command, event)
    assert (command.correlation_id, command.source_id) == ("c", "shelf")
    assert (found.record.topic, found.record.partition) == (LIBRARY_COMMANDS.name, partition_of(b"shelf"))


def test_a_task_no_command_asks_for_is_due_again_in_its_row() -> None:
    original = letter(topic=PLAYBACK_DECIDED.name, key=b"the-task", value=None, consumer="work.forward.shelf")
    assert way(original) == Revive("forward", "the-task")
    assert way(original, gone=True) == Revive("forward", None)


@pytest.mark.parametrize(
    "original",
    [
        letter(key=None),
        letter(value=None),
        letter(key=b"k" * (KEY_BYTES_MAX + 1)),
        letter(topic="gone"),
        letter(consumer="somebody"),
    ],
    ids=["no key", "no value", "cut", "no topic", "nobody"],
)
def test_what_can_not_be_redriven_says_why(original: DeadLetter) -> None:
    found = way(original)
    assert isinstance(found, Cannot)
    assert said(found).startswith("refused: ")
    assert isinstance(way(letter(), gone=True), Cannot)
