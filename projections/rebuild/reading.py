"""Records of a topic between two vectors of offsets, without a group: nothing anybody else reads moves by it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from projections.decoding import place
from schemas.topics import Topic
from streams.runtime.errors import ConfigurationError, Unavailable
from streams.runtime.kafka import ASKING
from streams.runtime.settings import KafkaSettings

WAIT_S: Final = 0.25
SILENCE_MAX: Final = 120
"""Waits in a row without a record, an end or an error (30 s), after which Kafka counts as away."""
_LOST: Final = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError.UNKNOWN_TOPIC_OR_PART}
)


class LogReader:
    """Not thread-safe. Close it."""

    def __init__(self, kafka: KafkaSettings, topic: Topic) -> None:
        self._topic = topic.name
        self._consumer = Consumer(
            {
                **kafka.client(),
                **ASKING,
                "group.id": f"rebuild.{topic.name}",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "allow.auto.create.topics": False,
                "queued.max.messages.kbytes": 64 * 1024,
                "queued.min.messages": 50_000,
                "fetch.error.backoff.ms": 100,
            },
            logger=logging.getLogger("librdkafka.rebuild"),
        )

    def between(
        self, begin: Mapping[int, int], end: Mapping[int, int], records_max: int, stop: threading.Event
    ) -> Iterator[list[Message]]:
        """Batches of at most ``records_max`` committed messages with begin ≤ offset < end, in order within a partition;
        ends when every partition is at its end, or ``stop`` is set.

        Raises Unavailable when Kafka is away, ConfigurationError when the log does not hold what is asked for.
        """
        left = {partition for partition, offset in begin.items() if offset < end[partition]}
        if not left:
            return
        self._consumer.assign([TopicPartition(self._topic, partition, begin[partition]) for partition in sorted(left)])
        try:
            silence = 0
            while left and not stop.is_set():
                batch: list[Message] = []
                for message in self._consumer.consume(records_max, WAIT_S):
                    error = message.error()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        self._judge(error)
                        continue
                    partition, offset = place(message)
                    if error is None:
                        if offset < end[partition]:
                            batch.append(message)
                        if offset >= end[partition] - 1:
                            left.discard(partition)
                    elif offset >= end[partition]:
                        # What was left up to the end are marks of transactions, and aborted records.
                        left.discard(partition)
                silence = 0 if batch else silence + 1
                if silence > SILENCE_MAX:
                    raise Unavailable(f"Kafka gives no record of {self._topic}, though there should be some")
                if batch:
                    yield batch
        finally:
            self._consumer.unassign()

    def extents(self, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Of each partition the first offset there is, and the one behind the last committed record."""
        found = {}
        for partition in partitions:
            try:
                extent = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=10)
            except KafkaException as exc:
                raise Unavailable(f"Kafka does not say what {self._topic} holds") from exc
            if extent is None:
                raise Unavailable(f"Kafka does not say what {self._topic} holds")
            found[partition] = (int(extent[0]), int(extent[1]))
        return found

    def at(self, timestamp_ms: int, partitions: int) -> dict[int, int | None]:
        """Of each partition the first offset whose log-append time is not before this (ms); None: there is none."""
        asked = [TopicPartition(self._topic, partition, timestamp_ms) for partition in range(partitions)]
        found = self._consumer.offsets_for_times(asked, timeout=10)
        return {one.partition: one.offset if one.offset >= 0 else None for one in found}

    def close(self) -> None:
        self._consumer.close()

    def _judge(self, error: KafkaError) -> None:
        if error.code() in _LOST:
            raise ConfigurationError(f"{self._topic} does not hold the records to rebuild from: {error.name()}")
        if error.fatal():
            raise Unavailable(f"the Kafka client failed: {error.name()}")
