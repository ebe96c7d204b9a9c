"""Read a stretch of one partition, as a member of nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from .config import EngineConfig
from .errors import Crash

log = logging.getLogger(__name__)

#: Told by librdkafka while it finds its brokers again; it goes on by itself.
PASSING = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT)


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
        silent = 0.0
        while True:
            messages = consumer.consume(5000, 1.0)
            silent = 0.0 if messages else silent + 1.0
            if silent > config.operation_timeout:
                raise Crash(f"{topic}[{partition}]: nothing read for {silent:g} s")
            for message in messages:
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
