"""A broker that has just started can tell an old high watermark for a moment. The guard of the log was written to wait
that out and never asked to: a projection ended for good, and an operator was told that the tail of the log was lost."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future

import pytest
from confluent_kafka.admin import TopicDescription

from projections.log_guard import SHORT_PATIENCE_S, Extent, LogGuard
from projections.offsets import Position
from schemas.topics import PLAYBACK_DECIDED
from streams.runtime.clock import FakeClock
from streams.runtime.errors import ConfigurationError, Unavailable
from streams.runtime.settings import KafkaSettings

STANDS = Position(0, topic_id="t", next_offset=10)


class Guard(LogGuard):
    """Knows the topic, and takes the end of its one partition from the test."""

    end = 10

    def ask(self) -> Future[TopicDescription]:
        return Future()

    def confirm(self, asked: Future[TopicDescription], positions: Iterable[Position]) -> None:
        return None

    def extents(self, partitions: Iterable[int]) -> dict[int, Extent]:
        return {0: Extent(0, self.end)}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def guard(clock: FakeClock) -> Guard:
    return Guard(KafkaSettings(bootstrap="127.0.0.1:1"), PLAYBACK_DECIDED, "playback", clock)


def test_given_an_end_that_was_old_for_a_moment_the_projection_goes_on(guard: Guard, clock: FakeClock) -> None:
    guard.end = 9
    with pytest.raises(Unavailable, match="ends at 9"):
        guard.check([STANDS])
    guard.end = 10
    clock.advance(int(SHORT_PATIENCE_S * 1000))
    guard.check([STANDS])
    guard.end = 9
    with pytest.raises(Unavailable):
        guard.check([STANDS])


def test_given_an_end_that_stays_short_it_is_refused(guard: Guard, clock: FakeClock) -> None:
    guard.end = 9
    with pytest.raises(Unavailable):
        guard.check([STANDS])
    clock.advance(int(SHORT_PATIENCE_S * 1000))
    with pytest.raises(ConfigurationError, match="its tail was lost"):
        guard.check([STANDS])
