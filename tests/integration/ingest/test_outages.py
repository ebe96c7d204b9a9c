"""Broker or database away: accepted into the spool, quick once it is known, and in the log when they are back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition

from schemas.codec import Codec
from schemas.events import PlaybackReported
from schemas.placement import PARTITIONS
from schemas.registry import SchemaIds
from schemas.topics import IDENTITY_USERS, PLAYBACK_REPORTED
from streams.ingest.drain import PER_USER_MAX
from streams.local import Stack
from streams.runtime.kafka import apply_topics
from streams.runtime.settings import KafkaSettings
from tests.ingest.fakes import progress
from tests.integration.ingest.house import House, make_core

pytestmark = [pytest.mark.services, pytest.mark.faults]
PATIENCE_S = 60.0


def conninfo_of(stack: Stack) -> dict[str, Any]:
    address = stack.addresses.postgres
    assert address is not None
    return {
        "host": address.host,
        "port": address.port,
        "user": address.user,
        "password": address.password,
        "dbname": "postgres",
        "connect_timeout": 5,
    }


def house_on(stack: Stack, folder: Path, *, timeout_s: float, spool_records_max: int = 10_000) -> House:
    bootstrap = stack.addresses.bootstrap
    assert bootstrap is not None
    apply_topics(KafkaSettings(bootstrap=bootstrap), [PLAYBACK_REPORTED, IDENTITY_USERS])
    make_core(conninfo_of(stack))
    return House(bootstrap, conninfo_of(stack), folder, timeout_s=timeout_s, spool_records_max=spool_records_max)


class Sender:
    """Posts reports and remembers which were accepted and which were not."""

    def __init__(self, client: httpx.AsyncClient, house: House) -> None:
        self._client = client
        self._house = house
        self.accepted: list[str] = []
        self.doubtful: list[str] = []
        self._next = 0

    async def send(self, **changes: Any) -> httpx.Response:
        event_id = f"e{self._next}"
        self._next += 1
        answer = await self._client.post(
            "/v1/playback", json=progress(event_id=event_id, **changes), headers=self._house.bearer
        )
        (self.accepted if answer.status_code == 202 else self.doubtful).append(event_id)
        return answer

    async def until_accepted(self, **changes: Any) -> None:
        """Sends until the door takes reports again."""
        deadline = time.monotonic() + PATIENCE_S
        while (await self.send(**changes)).status_code != 202:
            assert time.monotonic() < deadline, "the door did not come back"
            await asyncio.sleep(0.2)


def in_the_log(bootstrap: str) -> list[str]:
    """The event ids of every record of playback.reported."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(PLAYBACK_REPORTED.name, number, 0) for number in range(PARTITIONS)])
    codec = Codec(SchemaIds())
    found: list[str] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is not None:
            ended.add(message.partition())
            continue
        event = codec.decode(message.value() or b"")
        assert isinstance(event, PlaybackReported)
        found.append(event.event_id)
    consumer.close()
    return found


def scene(house: House, act: Callable[[Sender], Awaitable[None]]) -> Sender:
    async def inside() -> Sender:
        transport = httpx.ASGITransport(house.app)
        async with house.ingest, httpx.AsyncClient(transport=transport, base_url="http://door", timeout=60) as client:
            sender = Sender(client, house)
            await act(sender)
            return sender

    return asyncio.run(inside())


async def drained(house: House) -> None:
    """Returns when nothing waits in the spool."""
    deadline = time.monotonic() + PATIENCE_S
    while house.ingest.spool.records:
        assert time.monotonic() < deadline, f"{house.ingest.spool.records} reports still wait"
        await asyncio.sleep(0.1)


def test_with_the_broker_away_reports_are_taken_into_the_spool_and_all_reach_the_log(
    private_stack: Callable[..., Stack], tmp_path: Path
) -> None:
    stack = private_stack(fast=True)
    broker = stack.kafka
    assert broker is not None
    house = house_on(stack, tmp_path, timeout_s=2.0)

    async def act(sender: Sender) -> None:
        for leave, come_back in (
            (broker.stop, broker.start),
            (broker.kill, broker.start),
            (broker.pause, broker.resume),
        ):
            await sender.until_accepted()
            await asyncio.to_thread(leave)
            line = house.ingest.publisher._line
            assert line is not None
            first = await asyncio.gather(*(sender.send() for _ in range(20)))
            assert {answer.status_code for answer in first} == {202}
            # Known to be away now: spooled without being handed to the producer, one trial a second aside.
            waiting = line.waiting()
            more = await asyncio.gather(*(sender.send() for _ in range(40)))
            assert {answer.status_code for answer in more} == {202}
            assert line.waiting() <= waiting + PER_USER_MAX
            assert house.ingest.spool.records >= 60
            await asyncio.to_thread(come_back)
            await drained(house)
        await sender.until_accepted()

    sender = scene(house, act)
    assert stack.addresses.bootstrap is not None
    log = in_the_log(stack.addresses.bootstrap)
    assert len(sender.accepted) >= 3 * 61
    # What Kafka had when its acknowledgement was lost is there twice, under one event id.
    assert set(sender.accepted) <= set(log) <= set(sender.accepted) | set(sender.doubtful)
    assert len(log) <= len(set(log)) + 3 * (20 + PER_USER_MAX)


def test_without_a_spool_the_broker_away_is_503_with_retry_after(
    private_stack: Callable[..., Stack], tmp_path: Path
) -> None:
    stack = private_stack(fast=True)
    broker = stack.kafka
    assert broker is not None
    house = house_on(stack, tmp_path, timeout_s=2.0, spool_records_max=0)

    async def act(sender: Sender) -> None:
        await sender.until_accepted()
        await asyncio.to_thread(broker.stop)
        answers = await asyncio.gather(*(sender.send() for _ in range(20)))
        assert {answer.status_code for answer in answers} == {503}
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers)
        await asyncio.to_thread(broker.start)
        await sender.until_accepted()

    scene(house, act)


def test_with_the_database_away_the_known_pass_and_the_unknown_wait_in_the_spool(
    private_stack: Callable[..., Stack], tmp_path: Path
) -> None:
    stack = private_stack()
    server = stack.postgres
    assert server is not None
    house = house_on(stack, tmp_path, timeout_s=5.0)

    async def act(sender: Sender) -> None:
        await sender.until_accepted(user="ana")
        for leave, come_back, who in (
            (server.stop, server.start, "ben"),
            (server.pause, server.resume, "cleo"),
        ):
            await asyncio.to_thread(leave)
            unknown = await sender.send(user=who)
            assert unknown.status_code == 202
            assert house.ingest.spool.holds("home", who)
            assert (await sender.send(user="ana", media=f"never-seen-by-{who}")).status_code == 202
            await asyncio.to_thread(come_back)
            await drained(house)

    scene(house, act)
    with psycopg.connect(**conninfo_of(stack)) as connection:
        rows = connection.execute("SELECT upstream_user, published FROM core.users ORDER BY 1").fetchall()
    assert rows == [("ana", True), ("ben", True), ("cleo", True)]
