"""Read a stretch of one partition, as a member of nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from .config import EngineConfig
from .errors import Crash

log = logging.getLogger(__name__)

#: Told by librdkafka while it finds its brokers again; it goes on by itself.
PASSING = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT)


Place = tuple[str, int]


def key_of(record: Message) -> bytes:
    """Return the key of a changelog record. Raises Crash when it has none."""
    key = record.key()
    if key is None:
        raise Crash(
            f"{record.topic()}[{record.partition()}]@{record.offset()}: a changelog record "
            "without a key: somebody else writes to this topic"
        )
    return key


def read(
    config: EngineConfig, topic: str, partition: int, start: int, end: int, *, undecided: bool = False
) -> Iterator[Message]:
    """Yield the committed records of ``[start, end)``, with ``undecided`` those of aborted and open transactions too.

    Raises Crash when nothing comes for ``operation_timeout``, or the partition cannot be read.
    """
    if start >= end:
        return
    settings = config.restore_consumer() | {"isolation.level": f"read_{'un' if undecided else ''}committed"}
    consumer = Consumer(settings, logger=log)
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        heard_at = time.monotonic()
        while True:
            first = consumer.poll(1.0)
            if first is None:
                if time.monotonic() - heard_at > config.operation_timeout:
                    raise Crash(f"{topic}[{partition}]: nothing read for {config.operation_timeout:g} s")
                continue
            heard_at = time.monotonic()
            # What is there, at once: to wait until so many have come would be to wait at the end of every stretch.
            for message in [first, *consumer.consume(5000, 0)]:
                error, offset = message.error(), message.offset()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        return
                    if error.retriable() or error.code() in PASSING:
                        continue
                    raise Crash(f"{topic}[{partition}]: {error}")
                assert offset is not None
                if offset >= end:
                    return
                yield message
                if offset == end - 1:
                    return
    finally:
        consumer.close()


def read_stretches(
    config: EngineConfig, stretches: Mapping[Place, tuple[int, int]], *, undecided: bool = False
) -> dict[Place, list[Message]]:
    """Return the records of ``[start, end)`` of each partition, as ``read`` does, all at once."""
    found: dict[Place, list[Message]] = {place: [] for place in stretches}
    ends = {place: end for place, (start, end) in stretches.items() if start < end}
    if not ends:
        return found
    settings = config.restore_consumer() | {"isolation.level": f"read_{'un' if undecided else ''}committed"}
    consumer = Consumer(settings, logger=log)
    try:
        consumer.assign([TopicPartition(*place, stretches[place][0]) for place in ends])
        silent_since = time.monotonic()
        while ends:
            first = consumer.poll(1.0)
            if first is None:
                if time.monotonic() - silent_since > config.operation_timeout:
                    raise Crash(f"{sorted(ends)}: nothing read for {config.operation_timeout:g} s")
                continue
            silent_since = time.monotonic()
            for message in [first, *consumer.consume(5000, 0)]:
                error, offset = message.error(), message.offset()
                place = message.topic() or "", message.partition() if message.partition() is not None else -1
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    if error.retriable() or error.code() in PASSING:
                        continue
                    raise Crash(f"{place[0]}[{place[1]}]: {error}")
                assert offset is not None
                if place not in ends:
                    continue
                if error is None and offset < ends[place]:
                    found[place].append(message)
                if error is not None or offset >= ends[place] - 1:
                    del ends[place]
        return found
    finally:
        consumer.close()
