"""Dead letters: bytes kept, texts safe, the same id each time."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.events import DeadLetter
from schemas.ids import SchemaIds
from schemas.topics import DEAD_LETTER_BYTES_MAX, PLAYBACK_DECIDED
from streams.runtime.clock import FakeClock
from streams.runtime.contract import Contract
from streams.runtime.deadletter import (
    KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
    CauseClass,
    cause_class,
    dead_letter,
    dead_letter_key,
)
from streams.runtime.errors import Permanent

CONTRACT = Contract(SchemaIds(), registry=None)


def letter(**changes: Any) -> DeadLetter:
    known: dict[str, Any] = {
        "topic": PLAYBACK_DECIDED.name,
        "topic_id": "tid",
        "partition": 3,
        "offset": 9,
        "key": b"k",
        "value": b"\0\0\0\0\x07body",
        "error": Permanent("no good", cause="bad_magic"),
        "consumer": "projection.playback",
        "attempts": 1,
        "clock": FakeClock(1_000),
    }
    return dead_letter(**(known | changes))


def test_a_letter_says_where_what_and_why() -> None:
    made = letter()
    assert (made.topic, made.topic_id, made.partition, made.offset) == (PLAYBACK_DECIDED.name, "tid", 3, 9)
    assert (made.key, made.value, made.schema_id) == (b"k", b"\0\0\0\0\x07body", 7)
    assert (made.cause_class, made.error_class, made.error_text) == ("bad_magic", "Permanent", "no good")
    assert (made.failed_at, made.correlation_id, made.source_id) == (1_000, made.event_id, "unknown")
    assert dead_letter_key(made.topic, made.partition) == b"playback.decided:3"


def test_the_id_is_of_the_position_and_the_consumer_and_of_nothing_else() -> None:
    first = letter().event_id
    assert letter(value=None, attempts=4, clock=FakeClock(9), error=ValueError("x")).event_id == first
    for other in ({"topic_id": "t2"}, {"partition": 4}, {"offset": 10}, {"consumer": "playback agent"}):
        assert letter(**other).event_id != first


def test_ids_of_a_record_that_could_be_read_are_kept() -> None:
    made = letter(correlation_id="c-1", source_id="home")
    assert (made.correlation_id, made.source_id) == ("c-1", "home")


@pytest.mark.parametrize("cause", list(CauseClass))
def test_a_cause_of_the_list_is_its_class(cause: CauseClass) -> None:
    assert cause_class(Permanent("x", cause=cause.value)) is cause


def test_what_is_not_in_the_list_is_other() -> None:
    assert cause_class(Permanent("x", cause="cosmic_ray")) is CauseClass.OTHER
    assert cause_class(RuntimeError("x")) is CauseClass.OTHER


@pytest.mark.parametrize("text", ["n\0ul", "\ud800 surrogate", "x" * 5_000, "ü" * 1_024, ""])
def test_any_error_text_fits_the_contract(text: str) -> None:
    made = letter(error=ValueError(text))
    assert CONTRACT.decode(CONTRACT.encode(made)) == made


def test_a_payload_at_the_source_topics_limit_is_kept_whole_and_a_giant_is_cut_with_a_word_about_it() -> None:
    assert letter(value=b"v" * 262_144).value == b"v" * 262_144
    giant = letter(key=b"k" * 20_000, value=b"v" * 5_000_000)
    assert giant.key == b"k" * KEY_BYTES_MAX
    assert giant.value == b"v" * VALUE_BYTES_MAX
    assert giant.error_text.startswith(f"value of 5000000 bytes cut to {VALUE_BYTES_MAX}; key of 20000 bytes cut to")
    assert len(CONTRACT.encode(giant)) < DEAD_LETTER_BYTES_MAX - 8_000
