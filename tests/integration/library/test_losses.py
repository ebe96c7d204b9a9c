"""Observations that get lost or garbled on their way, and removals that nobody means: nothing present goes missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schemas.library import ItemObserved, Observation
from streams.effects.observing import ObservedSink
from streams.runtime.contract import Contract
from tests.integration.library.library import Library

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("library"), pytest.mark.long]


def full(library: Library) -> dict[bytes, str]:
    library.make(*(f"{folder}/{number}.mp3" for folder in "abc" for number in range(5)))
    library.scan()
    library.play()
    library.check()
    return library.ids()


def lose(sink: ObservedSink, event: Observation, send: Callable[[ObservedSink, Observation], None]) -> None:
    del sink, event, send


def garble(sink: ObservedSink, event: Observation, send: Callable[[ObservedSink, Observation], None]) -> None:
    encode = Contract.encode

    class Garbled:
        def encode(self, event: Any) -> bytes:
            return encode(contract, event)[:-3]

    contract = sink._contract
    sink._contract = Garbled()  # type: ignore[assignment]
    try:
        send(sink, event)
    finally:
        sink._contract = contract


@pytest.mark.parametrize("harm", [lose, garble])
@pytest.mark.parametrize("ordinals", [{0}, {7}, {14}, {3, 4, 9}], ids=["first", "middle", "last", "several"])
def test_a_scan_some_of_whose_words_are_lost_marks_nothing_missing_and_the_next_one_heals(
    library: Library, monkeypatch: pytest.MonkeyPatch, harm: Callable[..., None], ordinals: set[int]
) -> None:
    before = full(library)
    library.rename("a/1.mp3", "d/1.mp3")
    library.remove("b/0.mp3")
    library.make("new.mp3")
    sends = ObservedSink.send

    def send(sink: ObservedSink, event: Observation) -> None:
        if isinstance(event, ItemObserved) and event.ordinal in ordinals:
            harm(sink, event, sends)
        else:
            sends(sink, event)

    monkeypatch.setattr(ObservedSink, "send", send)
    library.scan("incomplete", "observations_lost")
    assert {item.status for item in library.items().values()} <= {"present", "provisional"}
    monkeypatch.undo()
    library.scan()
    library.check()
    now = library.ids()
    assert now.pop(b"new.mp3")
    assert now == {path.replace(b"a/1", b"d/1"): media for path, media in before.items() if path != b"b/0.mp3"}


def test_a_repeated_scan_of_words_changes_nothing(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that sends again what had arrived."""
    before = full(library)
    sends = ObservedSink.send

    def send(sink: ObservedSink, event: Observation) -> None:
        sends(sink, event)
        sends(sink, event)

    library.rename("a/1.mp3", "d/1.mp3")
    monkeypatch.setattr(ObservedSink, "send", send)
    library.scan()
    library.check()
    assert library.ids() == {path.replace(b"a/1", b"d/1"): media for path, media in before.items()}


def test_bytes_that_are_no_observation_stop_nothing(library: Library) -> None:
    before = full(library)
    library.house.observe(b"", b"\0", b"\0\0\0\0\1garbage", bytes(3_000), source_id=library.source_id)
    library.scan()
    library.check()
    assert library.ids() == before
