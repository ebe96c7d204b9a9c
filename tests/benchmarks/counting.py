"""How many records of each kind came into one partition of a topic."""

from __future__ import annotations

import time
from collections import Counter as Counts
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from schemas.placement import partition_of
from schemas.topics import Topic
from streams.runtime.contract import Contract
from streams.runtime.settings import Settings

_PATIENCE_S: Final = 30.0


class Counter:
    """Begins at the end of the partition of ``key`` as it is now."""

    def __init__(self, settings: Settings, topic: Topic, key: str, contract: Contract) -> None:
        self.topic = topic
        self._contract = contract
        self._place = TopicPartition(topic.name, partition_of(key.encode()))
        self._consumer = Consumer(
            {
                **settings.kafka.client(),
                "group.id": "library-bench",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        self._from = self._end()

    def count(self) -> dict[str, int]:
        """Committed records since, by the name of their event. Ends the counter."""
        found: Counts[str] = Counts()
        end = self._end()
        self._consumer.assign([TopicPartition(self._place.topic, self._place.partition, self._from)])
        until = time.monotonic() + _PATIENCE_S
        while self._from < end:
            if time.monotonic() > until:
                raise TimeoutError(f"{self.topic.name} can't be read to its end")
            for message in self._consumer.consume(1_000, 0.1):
                value, offset = message.value(), message.offset()
                if message.error() is not None:
                    self._from = end  # its end
                elif value is not None and offset is not None:
                    found[type(self._contract.decode(value)).__name__] += 1
        self._consumer.close()
        return dict(found)

    def _end(self) -> int:
        _, high = self._consumer.get_watermark_offsets(self._place, timeout=_PATIENCE_S)
        return int(high)
