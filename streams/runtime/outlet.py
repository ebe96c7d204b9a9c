"""Producing from a plain loop: hand over, wait for every acknowledgement, or say Unavailable."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from schemas.topics import DEAD_LETTER_BYTES_MAX
from streams.runtime.errors import ConfigurationError, Permanent, Unavailable
from streams.runtime.failures import kafka_failed
from streams.runtime.publisher import Acknowledged, Record
from streams.runtime.settings import KafkaSettings

DELIVERY_TIMEOUT_S = 10.0
_DENIED = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD})


class Handed:
    """Records on their way, and what is known of them by now."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self.errors: list[KafkaError] = []
        self.places: dict[int, Acknowledged] = {}

    def report(self, index: int) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is not None:
                self.errors.append(error)
            # "Delivered" without an offset is Kafka's "duplicate": nobody knows where that record is.
            elif offset is not None:
                record = self.records[index]
                self.places[index] = Acknowledged(record.topic, record.partition, offset)

        return delivered


class Outlet:
    """An idempotent producer for batches that must be durable before the next step. Not thread-safe."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._config: dict[str, Any] = {
            **kafka.client(),
            "acks": "all",
            "enable.idempotence": True,
            # With more, a new partition can lose records it acknowledged: its first batch fails (no leader yet), the
            # second is taken as the producer's beginning, and the first, sent again, then counts as a duplicate.
            "max.in.flight.requests.per.connection": 1,
            "linger.ms": 1,
            "compression.type": "lz4",
            "delivery.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000),
            "message.max.bytes": 2 * DEAD_LETTER_BYTES_MAX,
            # One record at the limit of its topic must not share a batch with others.
            "batch.size": 128 * 1024,
            "allow.auto.create.topics": False,
        }
        self._producer: Producer | None = None

    def publish(self, records: Sequence[Record]) -> list[Acknowledged]:
        """Return when all in-sync replicas have every record, in the order given per partition; where each is.

        Raises Unavailable when any is in doubt (all must be published again), ConfigurationError when Kafka
        denies it, Permanent when a record is over its topic's limit.
        """
        return self.end(self.begin(records))

    def begin(self, records: Sequence[Record]) -> Handed:
        """Hand the records over and return; what became of them ``end`` tells, which is to be called before the next
        ``begin``. Raises nothing of its own."""
        handed = Handed(records)
        if not records:
            return handed
        producer = self._producer or Producer(self._config, logger=logging.getLogger("librdkafka.outlet"))
        self._producer = producer
        try:
            for index, record in enumerate(records):
                while True:
                    try:
                        producer.produce(
                            record.topic,
                            value=record.value,
                            key=record.key,
                            partition=record.partition,
                            headers=list(record.headers),
                            on_delivery=handed.report(index),
                        )
                        break
                    except BufferError:
                        producer.poll(0.1)
        except KafkaException as exc:
            handed.errors.append(exc.args[0])
        return handed

    def end(self, handed: Handed) -> list[Acknowledged]:
        """As ``publish``, of what was handed over before."""
        if handed.records and self._producer is not None:
            try:
                # librdkafka reports every record, delivered or not, by its delivery timeout.
                self._producer.flush(DELIVERY_TIMEOUT_S + 5.0)
            except KafkaException as exc:
                handed.errors.append(exc.args[0])
        if handed.errors or len(handed.places) < len(handed.records):
            self.close()
            raise _judged(handed.errors)
        return [handed.places[index] for index in range(len(handed.records))]

    def close(self) -> None:
        """Forget the producer and what it has not delivered: after an error it may be of no use any more."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(1.0)


def _judged(errors: Sequence[KafkaError]) -> Exception:
    codes = {error.code(): error for error in errors}
    for code in codes.keys() & _DENIED:
        return ConfigurationError(f"Kafka refused to take records: {codes[code].str()}")
    for code in codes.keys() & _TOO_LARGE:
        return Permanent(f"Kafka refused a record: {codes[code].name()}", cause="too_large")
    kafka_failed(next(iter(codes.values())).name() if codes else "_TIMED_OUT")
    names = ", ".join(sorted(error.name() for error in codes.values())) or "no acknowledgement in time"
    return Unavailable(f"Kafka did not acknowledge: {names}")
