"""The follower of identity.users over librdkafka's own mock of a broker: it never waits for ever."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from schemas.topics import IDENTITY_USERS
from streams.ingest import identities as module
from streams.ingest.identities import CATCH_UP_S, KafkaIdentities
from streams.ingest.people import identity_key, identity_record
from streams.runtime.quiet import quieted

KEY = b"a key of sixteen bytes"
PARTITIONS = 4  # the mock's


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Producer]]:
    """The address of a mock broker and the producer that it lives in."""
    monkeypatch.setattr(module, "IDENTITY_USERS", dataclasses.replace(IDENTITY_USERS, partitions=PARTITIONS))
    config = {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1}
    producer = Producer(config, logger=quieted("mock"))
    producer.list_topics(IDENTITY_USERS.name, timeout=20)
    [one] = producer.list_topics(timeout=20).brokers.values()
    yield f"{one.host}:{one.port}", producer
    producer.flush(5)


def write(producer: Producer, name: str, user_ref: str) -> bytes:
    record = identity_record(KEY, "home", name, user_ref)
    producer.produce(record.topic, record.value, record.key, record.partition % PARTITIONS)
    assert producer.flush(20) == 0
    return record.key


def test_what_was_written_before_is_known_however_many_ask_at_once(broker: tuple[str, Producer]) -> None:
    address, producer = broker
    keys = [write(producer, f"person-{number}", "a" * 32) for number in range(50)]
    news: list[tuple[bytes, str | None]] = []

    async def scene() -> None:
        async with KafkaIdentities({"bootstrap.servers": address}) as identities:
            identities.tell(lambda key, ref: news.append((key, ref)))
            # More than the threads of a loop's pool: none may wait in one.
            answers = await asyncio.gather(*(identities.current(keys) for _ in range(100)))
            assert answers == [dict.fromkeys(keys, "a" * 32)] * 100
            write(producer, "person-7", "b" * 32)
            changed = identity_key(KEY, "home", "person-7")
            assert await identities.current([changed]) == {changed: "b" * 32}
            write(producer, "person-7", "")
            assert await identities.current([changed]) == {}
            assert identities.seen(keys[0]) == "a" * 32
        assert (changed, None) in news

    started = time.monotonic()
    asyncio.run(scene())
    assert time.monotonic() - started < 10 * CATCH_UP_S, "somebody waited for ever"
