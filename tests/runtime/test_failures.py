"""A dependency that is away, late or says no is counted where it is asked; every such number moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from confluent_kafka import KafkaError
from psycopg_pool import PoolTimeout
from valkey.exceptions import ConnectionError as ValkeyConnectionError
from valkey.exceptions import TimeoutError as ValkeyTimeoutError

from projections.database import Writer
from streams.local import ports
from streams.runtime import metrics
from streams.runtime.blocking import BlockingDatabase
from streams.runtime.cache import Answer, Cache
from streams.runtime.database import Database, DatabaseAway
from streams.runtime.errors import Unavailable
from streams.runtime.failures import Dependency, failed
from streams.runtime.outlet import _judged
from streams.upstream.errors import UpstreamError
from streams.upstream.http import Limits, Upstream
from streams.upstream.origin import Origin
from tests.upstream.loopback import answering, http


def counted() -> dict[tuple[str, str], float]:
    """Failures by dependency and how."""
    [family] = metrics.FAILURES.collect()
    return {
        (one.labels["dependency"], one.labels["how"]): one.value
        for one in family.samples
        if one.name.endswith("_total")
    }


@pytest.fixture
def moved() -> Callable[[], dict[tuple[str, str], float]]:
    """What was counted since the test began."""
    before = counted()
    return lambda: {key: n - before.get(key, 0) for key, n in counted().items() if n != before.get(key, 0)}


Moved = Callable[[], dict[tuple[str, str], float]]


@pytest.mark.parametrize(
    ("dependency", "error", "how"),
    [
        ("postgres", psycopg.errors.QueryCanceled(), "timeout"),
        ("postgres", PoolTimeout(), "timeout"),
        ("postgres", psycopg.OperationalError(), "away"),
        ("valkey", ValkeyTimeoutError(), "timeout"),
        ("valkey", ValkeyConnectionError(), "away"),
        ("upstream", TimeoutError(), "timeout"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_timeout_is_told_from_an_absence(moved: Moved, dependency: Dependency, error: Exception, how: str) -> None:
    failed(dependency, error)
    assert moved() == {(dependency, how): 1}


def nowhere() -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": ports.choose(), "user": "x", "dbname": "x", "connect_timeout": 2}


def test_given_no_postgresql_every_way_to_it_counts(moved: Moved) -> None:
    async def door() -> None:
        async with Database(nowhere(), timeout_s=0.3) as database:
            with pytest.raises(DatabaseAway):
                await database.probe()
            # Not asked at all, so nothing more to count.
            with pytest.raises(DatabaseAway):
                await database.probe()

    asyncio.run(door())
    assert sum(moved().values()) == 1
    with pytest.raises(Unavailable), Writer(nowhere()).transaction():
        pass
    assert moved()["postgres", "away"] >= 1
    before = sum(moved().values())
    with BlockingDatabase(nowhere()) as database:
        database._pool.timeout = 0.3
        with pytest.raises(DatabaseAway):
            database.run(lambda connection: connection)
    assert sum(moved().values()) == before + 1
    assert {dependency for dependency, _ in moved()} == {"postgres"}


def test_given_no_valkey_a_read_is_answered_and_the_failure_counted(moved: Moved) -> None:
    async def read() -> Answer[int]:
        return Answer(7)

    async def scenario() -> int:
        async with Cache(f"valkey://127.0.0.1:{ports.choose()}/0") as cache:
            return await cache.through("item:m", "", read, int)

    assert asyncio.run(scenario()) == 7
    assert moved() == {("valkey", "away"): 1}


@pytest.mark.parametrize(
    ("status", "how"), [("503 Busy", "away"), ("401 No", "credentials"), ("404 None", "not_offered")]
)
def test_what_a_media_server_says_no_with_is_counted_by_its_word(moved: Moved, status: str, how: str) -> None:
    async def scenario() -> None:
        limits = Limits(attempts=1, wait_s=0)
        async with (
            answering(http("no", status, content_type="text/plain")) as server,
            Upstream(Origin.of(server.url), limits=limits) as client,
        ):
            with pytest.raises(UpstreamError):
                await client.get("/x")

    asyncio.run(scenario())
    assert moved() == {("upstream", how): 1}


def test_given_a_media_server_that_does_not_answer_in_time_a_timeout_is_counted(moved: Moved) -> None:
    async def silent(_: str, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    async def scenario() -> None:
        limits = Limits(timeout_s=0.2, attempts=1, wait_s=0)
        async with answering(silent) as server, Upstream(Origin.of(server.url), limits=limits) as client:
            with pytest.raises(UpstreamError):
                await client.get("/x")

    asyncio.run(scenario())
    assert moved() == {("upstream", "timeout"): 1}


def test_records_kafka_does_not_acknowledge_are_counted(moved: Moved) -> None:
    _judged([KafkaError(KafkaError._MSG_TIMED_OUT)])
    _judged([KafkaError(KafkaError._ALL_BROKERS_DOWN)])
    _judged([])
    assert moved() == {("kafka", "timeout"): 2, ("kafka", "away"): 1}
