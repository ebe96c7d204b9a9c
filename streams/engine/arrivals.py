"""What one fetch brought, by where it is from."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Message

Place = tuple[str, int]


def by_place(messages: Iterable[Message]) -> tuple[dict[Place, list[Message]], list[Message]]:
    """Return the records by topic and partition, in the order of ``messages``, and those that are errors instead."""
    records: dict[Place, list[Message]] = {}
    errors: list[Message] = []
    topic: str | None = None
    partition: int | None = None
    run: list[Message] = []
    for message in messages:
        if message.error() is not None:
            errors.append(message)
            continue
        # A fetch brings many records of one partition after each other.
        if message.partition() != partition or message.topic() != topic:
            topic, partition = message.topic(), message.partition()
            assert topic is not None
            assert partition is not None
            run = records.setdefault((topic, partition), [])
        run.append(message)
    return records, errors
