"""Observations go in pieces: one on its way while the next is made, never two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from schemas.ids import SchemaIds
from schemas.library import PathSkipped
from streams.effects import observing
from streams.effects.observing import PIECE_RECORDS, ObservedSink
from streams.runtime.contract import Contract
from streams.runtime.errors import Unavailable
from streams.runtime.publisher import Record
from streams.runtime.settings import KafkaSettings


class FakeOutlet:
    """``said``: what it was asked for, in order."""

    said: ClassVar[list[str]] = []
    fails_at: ClassVar[int | None] = None

    def __init__(self, kafka: KafkaSettings) -> None:
        self.said.clear()
        self._pieces = 0

    def begin(self, records: Sequence[Record]) -> int:
        self._pieces += 1
        self.said.append(f"begin {len(records)}")
        return self._pieces

    def end(self, handed: int) -> list[Any]:
        self.said.append(f"end {handed}")
        if handed == self.fails_at:
            raise Unavailable("away")
        return []

    def close(self) -> None:
        self.said.append("close")


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> ObservedSink:
    monkeypatch.setattr(observing, "Outlet", FakeOutlet)
    monkeypatch.setattr(FakeOutlet, "fails_at", None)
    return ObservedSink(KafkaSettings(), Contract(SchemaIds(), None), "music")


def send(sink: ObservedSink, count: int) -> None:
    for number in range(count):
        sink.send(
            PathSkipped(
                event_id=str(number), correlation_id="c", source_id="music", received_at=1, generation=1,
                ordinal=number, path=b"a", folder=False, reason="unreadable",
            )
        )  # fmt: skip


def test_a_piece_is_in_the_log_before_the_next_is_handed_over_and_the_last_before_a_flush_returns(
    sink: ObservedSink,
) -> None:
    send(sink, PIECE_RECORDS)
    assert FakeOutlet.said == [f"begin {PIECE_RECORDS}"]
    send(sink, PIECE_RECORDS + 5)
    assert FakeOutlet.said[1:] == ["end 1", f"begin {PIECE_RECORDS}"]
    sink.flush()
    assert FakeOutlet.said[3:] == ["end 2", "begin 5", "end 3"]


def test_a_piece_that_is_lost_keeps_back_all_that_follow(sink: ObservedSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeOutlet, "fails_at", 1)
    with pytest.raises(Unavailable):
        send(sink, 3 * PIECE_RECORDS)
    assert FakeOutlet.said == [f"begin {PIECE_RECORDS}", "end 1"]
