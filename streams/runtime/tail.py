"""Reading the end of a topic, all partitions of it, without a group: what hints are followed with.

Where to stand is the caller's word, and so is what to do when the log no longer has what comes next there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo, OffsetSpec

from schemas.topics import Topic
from streams.runtime.errors import PlayheadError, Unavailable
from streams.runtime.kafka import admin_client, as_kafka_prints
from streams.runtime.settings import KafkaSettings

TIMEOUT_S: Final = 5.0
# A topic nobody knows may be one whose leader is being chosen: what the log holds now tells (``ask``).
_LOST = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION})
_EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class TailLost(PlayheadError):
    """The log does not have what comes next where we stand: something may have been missed."""


@dataclass(frozen=True, slots=True)
class Extents:
    """What the log holds: of each partition from ``first`` up to, not including, ``end``. ``topic_id``: of which log.
    ``asked``: when, by time.monotonic(); everything acknowledged before that lies below the ends."""

    topic_id: str
    first: Mapping[int, int]
    end: Mapping[int, int]
    asked: float


class Tail:
    """Not thread-safe. Nothing is committed to Kafka, so any number may read side by side."""

    def __init__(self, kafka: KafkaSettings, topic: Topic) -> None:
        self._topic = topic
        self._config = {
            **kafka.client(),
            "group.id": "playhead.tail",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "allow.auto.create.topics": False,
            "queued.max.messages.kbytes": 4 * 1024,
            # What comes within so short a time comes together.
            "fetch.min.bytes": 64 * 1024,
            "fetch.wait.max.ms": 20,
            "fetch.error.backoff.ms": 100,
            "reconnect.backoff.max.ms": 1_000,
        }
        self._consumer: Consumer | None = None
        self._admin = admin_client(kafka, "librdkafka.tail")
        self._next: dict[int, int] = {}

    @property
    def positions(self) -> Mapping[int, int]:
        """Of each partition the offset of the record to come."""
        return dict(self._next)

    def stand_at(self, positions: Mapping[int, int]) -> None:
        """Read from these offsets on; what was fetched before is dropped."""
        self._next = dict(positions)
        if self._consumer is None:
            self._consumer = Consumer(self._config, logger=logging.getLogger("librdkafka.tail"))
        self._consumer.assign([TopicPartition(self._topic.name, *place) for place in self._next.items()])

    def take(self, records_max: int, wait_s: float) -> list[Message]:
        """What came since, as soon as there is any; nothing after ``wait_s``. Raises TailLost, Unavailable."""
        assert self._consumer is not None, "stand_at comes first"
        try:
            first = self._consumer.poll(wait_s)
            messages = [] if first is None else [first, *self._consumer.consume(records_max - 1, 0)]
        except KafkaException as exc:
            raise Unavailable(f"Kafka does not answer: {exc.args[0].name()}") from exc
        good: list[Message] = []
        for message in messages:
            error = message.error()
            if error is None:
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                self._next[partition] = offset + 1
                good.append(message)
            elif error.code() in _LOST:
                raise TailLost(error.name())
        return good

    def ask(self) -> Asked:
        """Ask what the log holds; the answer may be taken later, the work between is free."""
        places = [TopicPartition(self._topic.name, partition) for partition in range(self._topic.partitions)]
        asked = time.monotonic()
        topic = self._admin.describe_topics(TopicCollection([self._topic.name]), request_timeout=TIMEOUT_S)
        first = self._admin.list_offsets(dict.fromkeys(places, _EARLIEST), request_timeout=TIMEOUT_S)
        end = self._admin.list_offsets(dict.fromkeys(places, _LATEST), request_timeout=TIMEOUT_S)
        return Asked(asked, topic[self._topic.name], first, end)

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()


Offsets = dict[TopicPartition, "Future[ListOffsetsResultInfo]"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question under way."""

    at: float
    _topic: Future[object]
    _first: Offsets
    _end: Offsets

    @property
    def done(self) -> bool:
        return self._topic.done() and all(one.done() for one in (*self._first.values(), *self._end.values()))

    def answer(self) -> Extents:
        """Waits for it. Raises Unavailable when Kafka does not say."""
        try:
            described = self._topic.result(2 * TIMEOUT_S)
            return Extents(
                as_kafka_prints(str(described.topic_id)),  # type: ignore[attr-defined]
                {place.partition: int(one.result(2 * TIMEOUT_S).offset) for place, one in self._first.items()},
                {place.partition: int(one.result(2 * TIMEOUT_S).offset) for place, one in self._end.items()},
                self.at,
            )
        except (KafkaException, TimeoutError) as exc:
            raise Unavailable(f"Kafka does not say what the log holds: {type(exc).__name__}") from exc
