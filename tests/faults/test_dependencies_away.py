"""What happens while the registry, PostgreSQL or Kafka is away, and that nothing is lost by it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.faults import oracle
from tests.faults.world import World, playhead_world
from tests.integration.projections.world import eventually

POSTGRES_AWAY_S = float(os.environ.get("PLAYHEAD_POSTGRES_AWAY_S", "10"))
BATCH = 20

pytestmark = [
    pytest.mark.services,
    pytest.mark.faults,
    pytest.mark.xdist_group("dependencies_away"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with playhead_world(registry=True) as made:
        yield made


class Sender:
    """One person's session going on, batch by batch."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._sequence = 0

    def batch(self) -> list[dict[str, Any]]:
        now = int(time.time() * 1000)
        reports = []
        for _ in range(BATCH):
            self._sequence += 1
            reports.append(
                {
                    "event_id": f"{self._user}:{self._sequence}",
                    "user": self._user,
                    "media": "film",
                    "session_id": "s",
                    "sequence": self._sequence,
                    "kind": "progress",
                    "position_ms": self._sequence * 1_000,
                    "duration_ms": 7_200_000,
                    "occurred_at": now,
                }
            )
        return reports

    @property
    def position_ms(self) -> int:
        return self._sequence * 1_000


def _everything_holds(world: World) -> None:
    world.settle()
    logs = oracle.read_logs(world.settings)
    oracle.every_report_has_one_decision(logs)
    oracle.decisions_are_the_pure_fold(world.settings, logs)
    oracle.rows_are_the_fold(world.settings, logs)
    oracle.changes_are_invalidated(world.settings, logs)


def _shown(world: World, user: str) -> int:
    """The position that is read; a door whose database has just come back may ask for patience."""
    answer = httpx.Response(httpx.codes.SERVICE_UNAVAILABLE)

    def answered() -> bool:
        nonlocal answer
        answer = world.client.get(f"/v1/users/{user}/progress/film")
        return answer.status_code != httpx.codes.SERVICE_UNAVAILABLE

    eventually(answered, "the door reads again", 60)
    assert answer.status_code == httpx.codes.OK, answer.text
    return int(answer.json()["position_ms"])


def test_given_the_registry_is_stopped_roles_start_again_and_go_on(world: World) -> None:
    sender, supervisor = Sender("registry-away"), world.playhead.supervisor
    world.send(sender.batch())
    _everything_holds(world)
    world.playhead.stack.registry.stop()
    try:
        before = {name: supervisor.starts(name) for name in ("agents", "project", "relay", "serve")}
        for name in before:
            supervisor.signal(name, signal.SIGKILL)
        eventually(lambda: all(supervisor.starts(n) > count for n, count in before.items()), "all were started again")
        world.send(sender.batch())
        world.settle()
        assert _shown(world, "registry-away") == sender.position_ms
    finally:
        world.playhead.stack.registry.start()
    _everything_holds(world)


def test_given_postgresql_is_stopped_reports_are_still_taken_and_the_projector_resumes(world: World) -> None:
    sender = Sender("postgres-away")
    world.send(sender.batch())
    world.settle()
    starts = world.playhead.supervisor.starts("project")
    world.playhead.stack.postgres.stop()
    try:
        until = time.monotonic() + POSTGRES_AWAY_S
        # The sender is known and so is the token, so the door needs no database for them.
        while time.monotonic() < until:
            world.send(sender.batch())
            time.sleep(0.5)
    finally:
        world.playhead.stack.postgres.start()
    world.settle()
    assert _shown(world, "postgres-away") == sender.position_ms
    assert world.playhead.supervisor.starts("project") == starts, "the projector waits, it does not crash"
    _everything_holds(world)


def test_given_kafka_is_stopped_reports_are_taken_into_the_spool_and_decided_when_it_is_back(world: World) -> None:
    sender = Sender("kafka-away")
    world.send(sender.batch())
    world.settle()
    world.playhead.stack.kafka.stop()
    try:
        for _ in range(5):
            answer = world.post(sender.batch())
            assert answer.status_code == httpx.codes.ACCEPTED, answer.text
    finally:
        world.playhead.stack.kafka.start()
    eventually(lambda: _shown(world, "kafka-away") == sender.position_ms, "the last spooled report is shown", 60)
    _everything_holds(world)
