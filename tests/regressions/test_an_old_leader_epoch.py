"""After a broker was killed or frozen, partitions have a new leader epoch. Admin clients went on with the one they
knew, and every ListOffsets failed with FENCED_LEADER_EPOCH until their metadata were due, five minutes later: workers
ended and began again, projections and the cache worker waited, the door could not tell who is known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from projections.log_guard import LogGuard
from schemas.topics import CACHE_INVALIDATED, PLAYBACK_DECIDED
from streams.engine import EngineConfig
from streams.engine.logs import Logs
from streams.ingest.identities import KafkaIdentities
from streams.local import KafkaCluster
from streams.runtime.clock import SystemClock
from streams.runtime.errors import Unavailable
from streams.runtime.kafka import apply_topics
from streams.runtime.settings import KafkaSettings
from streams.runtime.tail import Tail

pytestmark = [pytest.mark.services, pytest.mark.faults, pytest.mark.long]

PATIENCE_S = 60.0


def answers(ask: Callable[[], object]) -> bool:
    """Whether it answers at last, asked by the same client again and again."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            ask()
            return True
        except Unavailable:
            time.sleep(0.3)
    return False


async def tells(identities: KafkaIdentities) -> bool:
    """Whether the door's view of who is known can be asked at last."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            await identities.current([b"00"])
            return True
        except Unavailable:
            await asyncio.sleep(0.3)
    return False


def test_given_a_broker_that_was_killed_then_clients_that_knew_it_before_are_answered(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path / "kafka", brokers=1) as cluster:
        kafka = KafkaSettings(bootstrap=cluster.bootstrap)
        list(apply_topics(kafka))
        config = EngineConfig(bootstrap=cluster.bootstrap, group="g", state_dir=tmp_path, operation_timeout=PATIENCE_S)
        logs, places = Logs(config), [(PLAYBACK_DECIDED.name, partition) for partition in range(12)]
        facts = logs.describe([PLAYBACK_DECIDED.name])
        guard = LogGuard(kafka, PLAYBACK_DECIDED, "playback", SystemClock())
        tail = Tail(kafka, CACHE_INVALIDATED)
        asked = [
            lambda: logs.ranges(places, facts),
            lambda: guard.extents(range(12)),
            lambda: tail.ask().answer(),
        ]

        def restart() -> None:
            node = cluster.nodes[0]
            node.kill()
            node.start()
            cluster.wait_ready()

        async def door() -> list[bool]:
            async with KafkaIdentities(kafka.client()) as identities:
                before = await tells(identities)
                await asyncio.to_thread(restart)
                return [before, await tells(identities)]

        assert all(answers(ask) for ask in asked)
        assert asyncio.run(door()) == [True, True]
        assert [answers(ask) for ask in asked] == [True, True, True]
        tail.close()
