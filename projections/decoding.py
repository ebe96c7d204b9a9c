"""Kafka messages to records of a projection, and the ones that can't be to dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from confluent_kafka import Message

from projections.base import E, Projection, Record
from projections.offsets import Position
from schemas.codec import WIRE_HEADER_BYTES
from schemas.events import DeadLetter, Event
from schemas.placement import partition_of
from schemas.topics import DEAD_LETTERS
from streams.runtime import publisher
from streams.runtime.clock import Clock
from streams.runtime.contract import Contract
from streams.runtime.deadletter import dead_letter, dead_letter_key
from streams.runtime.errors import Permanent


@dataclass(frozen=True, slots=True)
class Poison:
    """A message nobody can apply, and why."""

    message: Message
    error: Permanent
    event: Event | None


@dataclass(frozen=True, slots=True)
class Decoded(Generic[E]):
    """``outcomes``: for each message in order, whether it is poison."""

    records: Sequence[Record[E]]
    poison: Sequence[Poison]
    outcomes: Sequence[bool]


class Decoder(Generic[E]):
    """Applies the contract, then the projection's own checks, to one message after the other."""

    def __init__(self, projection: Projection[E], contract: Contract, clock: Clock) -> None:
        self._projection = projection
        self._contract = contract
        self._clock = clock

    def decode(self, messages: Sequence[Message], positions: dict[int, Position]) -> Decoded[E]:
        """All messages, each a record or poison.

        Raises Unavailable while only an absent registry could tell, ConfigurationError when this build is too
        old for a record.
        """
        records: list[Record[E]] = []
        poison: list[Poison] = []
        outcomes: list[bool] = []
        for message in messages:
            event: Event | None = None
            try:
                key, value = self._bytes(message)
                event = self._contract.decode(value)
                partition, offset = place(message)
                records.append(
                    Record(
                        event=self._projection.accept(key, event, partition),
                        partition=partition,
                        offset=offset,
                        log_epoch=positions[partition].log_epoch,
                        timestamp=message.timestamp()[1],
                        body=value[WIRE_HEADER_BYTES:],
                    )
                )
                outcomes.append(False)
            except Permanent as exc:
                poison.append(Poison(message, exc, event))
                outcomes.append(True)
        return Decoded(records, poison, outcomes)

    def letter(self, poison: Poison, topic_id: str, consumer: str) -> DeadLetter:
        partition, offset = place(poison.message)
        return dead_letter(
            topic=self._projection.topic.name,
            topic_id=topic_id,
            partition=partition,
            offset=offset,
            key=poison.message.key(),
            value=poison.message.value(),
            error=poison.error,
            consumer=consumer,
            attempts=1,
            clock=self._clock,
            correlation_id=poison.event.correlation_id if poison.event else None,
            source_id=poison.event.source_id if poison.event else None,
        )

    def record_of(self, letter: DeadLetter) -> publisher.Record:
        """The letter as a record of dead.letters."""
        key = dead_letter_key(letter.topic, letter.partition)
        return publisher.Record(
            DEAD_LETTERS.name, partition_of(key, DEAD_LETTERS.partitions), key, self._contract.encode(letter)
        )

    def _bytes(self, message: Message) -> tuple[bytes, bytes]:
        key, value = message.key(), message.value()
        if value is None:
            raise Permanent("the record has no value", cause="null_value")
        if key is None:
            raise Permanent("the record has no key", cause="null_key")
        size = len(key) + len(value)
        if size > self._projection.topic.bytes_max:
            raise Permanent(f"{size} bytes, the topic allows {self._projection.topic.bytes_max}", cause="too_large")
        return key, value


def place(message: Message) -> tuple[int, int]:
    """``(partition, offset)`` of a fetched message."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset
