"""Questions tests ask a broker: asked again while it says that it cannot answer yet.

A topic's leader and a group's coordinator move or load for a moment after they are made and under load. librdkafka
hands such errors through for single questions, and KafkaError.retriable() is set for transactions only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

DEADLINE_S = 60.0
ASK_S = 10.0
TRANSIENT = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._WAIT_COORD,
        # A client whose broker was frozen may have forgotten its topics for a moment.
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    }
)
T = TypeVar("T")


def is_transient(exc: BaseException) -> bool:
    """Whether the same question may be answered a moment later."""
    error = exc.args[0] if isinstance(exc, KafkaException) and exc.args else None
    return isinstance(error, KafkaError) and (error.retriable() or error.code() in TRANSIENT)


def answered(ask: Callable[[], T], *, deadline_s: float = DEADLINE_S, pause_s: float = 0.1) -> T:
    """What ``ask`` returns, which must be safe to repeat. Raises its last error after the deadline, others at once."""
    patient = Retrying(
        retry=retry_if_exception(is_transient),
        stop=stop_after_delay(deadline_s),
        wait=wait_fixed(pause_s),
        reraise=True,
    )
    return patient(ask)


def watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """The first offset and the end of a partition."""
    found = answered(lambda: consumer.get_watermark_offsets(TopicPartition(topic, partition), ASK_S))
    assert found is not None
    return found


def committed(consumer: Consumer, wanted: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The group's offsets of ``wanted``. Raises KafkaException, also for a partition's own error."""
    partitions = list(wanted)

    def ask() -> list[TopicPartition]:
        found = consumer.committed(partitions, ASK_S)
        for place in found:
            if place.error is not None:
                raise KafkaException(place.error)
        return found

    return answered(ask)


def delete_records(admin: AdminClient, before: Iterable[TopicPartition]) -> None:
    """Cut partitions so that they start at these offsets."""
    cuts = list(before)

    def ask() -> None:
        done: dict[TopicPartition, Any] = admin.delete_records(cuts)
        for future in done.values():
            future.result(ASK_S)

    answered(ask)


def read_all(bootstrap: str, topic: str, partitions: int, *, isolation: str = "read_committed") -> list[Message]:
    """Every record of a topic, to the end of each partition. Raises AssertionError when an end is not reached."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[Message] = []
    ended: set[int | None] = set()
    turns = 0
    while len(ended) < partitions:
        turns += 1
        assert turns < 300, f"{topic}: the end is not reached: a transaction hangs"
        for message in consumer.consume(5000, 0.1):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
    return found
