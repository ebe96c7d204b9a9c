"""A projection stood still after its first assignment: one partition was owned, never fetched, and no error said so.

``stand_at`` assigned anew and then resumed what was paused since the rebalance. librdkafka starts the partitions of a
new assignment in its own thread, numbering the commands as ``resume`` does in ours; a resume that took its number
first and came second was dropped as outdated ("received outdated op PAUSE"), and the partition stayed paused.

Standing anew at 12 partitions with both cores busy: 7 of 1120 rounds left one partition unread; with empty
assignments in place of pauses none of 5846.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from projections import source
from projections.offsets import Position
from projections.source import Source
from schemas.topics import PLAYBACK_DECIDED
from streams.runtime.kafka import apply_topics
from streams.runtime.settings import KafkaSettings

ROUNDS = 60
UNREAD_AFTER_S = 30.0


class Recorded:
    """A consumer that knows no pause, and writes down where it was told to read."""

    def __init__(self, config: Any, logger: Any) -> None:
        self.assigned: list[list[tuple[int, int]] | None] = []

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self.callbacks = callbacks

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self.assigned.append([(place.partition, place.offset) for place in places])

    def unassign(self) -> None:
        self.assigned.append(None)

    def poll(self, wait_s: float) -> None:
        return None


def test_given_any_change_then_not_reading_is_an_empty_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "Consumer", Recorded)
    made = Source(KafkaSettings(), PLAYBACK_DECIDED, "g", session_timeout_s=6.0, gather_ms=20)
    consumer: Any = made._consumer
    both = [TopicPartition(PLAYBACK_DECIDED.name, number) for number in (0, 1)]

    consumer.callbacks["on_assign"](consumer, both)
    made.idle(0)
    made.stand_at([Position(0, next_offset=7), Position(1, next_offset=9)])
    made.idle(0)
    made.idle(0)
    made.stand_at([Position(0, next_offset=8), Position(1, next_offset=9)])
    consumer.callbacks["on_revoke"](consumer, both)
    made.idle(0)

    assert consumer.assigned == [[], [(0, 7), (1, 9)], [], [(0, 8), (1, 9)], None]


@pytest.mark.services
def test_given_it_stands_anew_many_times_then_every_partition_is_read_each_time(
    kafka_bootstrap: str, unique_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def quick(config: dict[str, Any], **more: Any) -> Consumer:
        # A broker holds a fetch this long, and whoever stands anew waits for the one before.
        return Consumer({**config, "fetch.wait.max.ms": 5}, **more)

    monkeypatch.setattr(source, "Consumer", quick)
    kafka, topic = KafkaSettings(bootstrap=kafka_bootstrap), replace(PLAYBACK_DECIDED, name=unique_name("decided"))
    apply_topics(kafka, [topic])
    producer = Producer({**kafka.client(), "max.in.flight.requests.per.connection": 1})
    for number in range(topic.partitions):
        producer.produce(topic.name, b"v", b"k", number)
    assert producer.flush(30) == 0

    made = Source(kafka, topic, topic.name, session_timeout_s=10.0, gather_ms=20)
    try:
        deadline = time.monotonic() + UNREAD_AFTER_S
        while len(made.assigned) < topic.partitions:
            assert time.monotonic() < deadline, "not assigned"
            made.take(1, 0.1)
        for round_ in range(ROUNDS):
            made.idle(0)
            made.stand_at([Position(number) for number in made.assigned])
            unread, deadline = set(made.assigned), time.monotonic() + UNREAD_AFTER_S
            while unread:
                assert time.monotonic() < deadline, f"round {round_}: nobody reads {unread}"
                unread -= {message.partition() for message in made.take(100, 0.1)}
    finally:
        made.close()
