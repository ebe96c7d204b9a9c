"""Door tables on the test's own database, topics on the shared broker, and reading back what was published."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from confluent_kafka import OFFSET_END, Consumer, Message, TopicPartition

from schemas.topics import IDENTITY_USERS, PLAYBACK_REPORTED
from streams.runtime.kafka import apply_topics
from streams.runtime.settings import KafkaSettings
from tests.integration.ingest.house import conninfo_of, make_core
from tests.kafka import watermarks
from tests.stack import Database

READ_TIMEOUT_S = 30.0


@pytest.fixture
def core(database: Database) -> Database:
    """A database with the schema ``core`` and the sources home and jelly."""
    make_core(conninfo_of(database))
    return database


@pytest.fixture
def connection(core: Database) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(core.url, autocommit=True) as opened:
        yield opened


@pytest.fixture(scope="session")
def topics(kafka_bootstrap: str) -> str:
    """The bootstrap address of a broker that has the door's topics."""
    apply_topics(KafkaSettings(bootstrap=kafka_bootstrap), [PLAYBACK_REPORTED, IDENTITY_USERS])
    return kafka_bootstrap


class Tail:
    """Reads a topic from where it ended when the tail was made."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        partitions = self._consumer.list_topics(topic, timeout=READ_TIMEOUT_S).topics[topic].partitions
        ends = [watermarks(self._consumer, topic, number) for number in partitions]
        assert OFFSET_END not in {end for _, end in ends}
        self._consumer.assign(
            [TopicPartition(topic, number, end) for number, (_, end) in zip(partitions, ends, strict=True)]
        )

    def take(self, wanted: Callable[[Message], bool], count: int) -> list[Message]:
        """The next ``count`` records that are wanted; fails when they do not come."""
        found: list[Message] = []
        deadline = time.monotonic() + READ_TIMEOUT_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None and wanted(message):
                found.append(message)
        return found

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def tail(topics: str, topic_prefix: str) -> Iterator[Callable[[str], Tail]]:
    """Makes tails of topics; close is taken care of."""
    made: list[Tail] = []

    def of(topic: str) -> Tail:
        made.append(Tail(topics, topic, f"{topic_prefix}-{len(made)}"))
        return made[-1]

    yield of
    for one in made:
        one.close()
