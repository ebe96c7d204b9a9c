"""Kafka for the bench: an embedded broker or a given one, topics of one run, records in them."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 4


def client(bootstrap: str) -> dict[str, str | int | float | bool]:
    """Settings of every client of the bench itself: its notices are not for the one who reads the figures."""
    return {"bootstrap.servers": bootstrap, "log_level": 4}


@contextlib.contextmanager
def kafka(bootstrap: str | None) -> Iterator[str]:
    """Yield the given address, or that of an embedded Kafka that ends with the block."""
    if bootstrap is not None:
        yield bootstrap
        return
    from streams.local import Stack

    with Stack(postgres=False) as stack:
        yield str(stack.addresses.bootstrap)


@dataclass
class Topics:
    """Topics with names of this run; all of them are deleted by ``close``."""

    bootstrap: str
    run: str = field(default_factory=lambda: f"bench-{secrets.token_hex(4)}")
    made: list[str] = field(default_factory=list)

    def name(self, what: str) -> str:
        """A name that no other run has."""
        return f"{self.run}-{what}"

    def make(self, what: str, partitions: int = PARTITIONS) -> str:
        """Create a topic, return its name."""
        topic = self.name(what)
        admin = AdminClient(client(self.bootstrap))
        for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result(30)
        self.made.append(topic)
        return topic

    def close(self) -> None:
        """Delete everything whose name is of this run, changelogs of peers included."""
        admin = AdminClient(client(self.bootstrap))
        names = [name for name in admin.list_topics(timeout=30).topics if self.run in name]
        if names:
            for future in admin.delete_topics(names).values():
                future.result(30)


@contextlib.contextmanager
def topics(bootstrap: str) -> Iterator[Topics]:
    """The topics of one part of the bench, gone afterwards."""
    made = Topics(bootstrap)
    try:
        yield made
    finally:
        made.close()


def fill(bootstrap: str, topic: str, records: Iterable[tuple[bytes, bytes]]) -> None:
    """Write ``records`` (key, value) and return when all are acknowledged. Raises RuntimeError otherwise."""
    producer = Producer({**client(bootstrap), "partitioner": "murmur2_random", "linger.ms": 20, "batch.size": 262_144})
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise RuntimeError(f"{topic} could not be filled")
