"""PostgreSQL, Kafka or the registry away: the projection waits, then goes on, and nothing is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from projections.migrate import migrate
from projections.relay import Relay
from projections.roles import create_roles
from schemas.events import Event
from schemas.ids import SchemaIds
from streams.local import Stack
from streams.runtime.contract import Contract
from streams.runtime.errors import Unavailable
from tests.integration.projections.world import (
    PASSWORDS,
    World,
    decided_topic,
    eventually,
    expect_rows,
    settings_for,
)
from tests.projections.decisions import Household, fold, placed

pytestmark = pytest.mark.services

DOWN_S = 4.0


@pytest.mark.faults
def test_postgresql_stopped_for_a_while_loses_nothing(
    kafka_bootstrap: str, shared_topics: None, private_stack: Callable[..., Stack], unique_name: Callable[[str], str]
) -> None:
    stack = private_stack(kafka=False)
    address = stack.postgres.address
    create_roles(address.url(), PASSWORDS, "playhead")
    settings = settings_for(kafka_bootstrap, address, "playhead")
    migrate(settings.postgres.conninfo("owner"))
    world = World(settings, decided_topic(unique_name("decided")), address.url("playhead"))
    world.create_topic()
    events = Household(40).decisions(600)
    relay = Relay(settings, world.contract)
    stop = threading.Event()
    relaying = threading.Thread(target=relay.run, args=(stop,), daemon=True)
    relaying.start()
    try:
        with world.running() as running:
            world.produce(events[:200])
            world.wait_applied(200)
            stack.postgres.stop()
            world.produce(events[200:400])
            time.sleep(DOWN_S)  # the outage itself
            assert running.thread.is_alive()
            assert relaying.is_alive()
            stack.postgres.start()
            world.wait_applied(400)
            # Pulled away in the middle of a batch, as a crash would.
            world.produce(events[400:])
            stack.postgres.kill()
            stack.postgres.start()
            world.wait_applied(600)
        eventually(lambda: world.query("SELECT count(*) FROM model.outbox") == [(0,)], "the outbox is empty")
    finally:
        stop.set()
        relaying.join(30)
    expect_rows(world.rows(), fold(placed(events)))
    published = {e.cache_key: e.version for e in world.invalidations({event.user_ref for event in events})}
    for (user, media), row in world.rows()["playback_progress"].items():
        assert published[f"progress:{user}:{media}"] >= row["version"]


def test_while_the_registry_is_away_the_projection_waits_in_its_group(world: World) -> None:
    away = threading.Event()
    away.set()
    asked = threading.Semaphore(0)

    class Asking(Contract):
        def decode(self, data: bytes) -> Event:
            asked.release()
            if away.is_set():
                raise Unavailable("the registry is away")
            return super().decode(data)

    events = Household(41).decisions(100)
    world.contract = Asking(SchemaIds(), registry=None)
    world.produce(events)
    with world.running():
        for _ in range(3):
            assert asked.acquire(timeout=30)
        assert world.applied() == 0
        away.clear()
        world.wait_applied(100)
    expect_rows(world.rows(), fold(placed(events)))
    assert world.dead_letters() == []


def test_an_unacknowledged_dead_letter_holds_the_offset_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = world.runner()
    publish = runner._outlet.publish
    refusals = iter(range(2))

    def sometimes(records: Any) -> None:
        if records and next(refusals, None) is not None:
            assert world.applied() == 0
            raise Unavailable("Kafka did not acknowledge")
        publish(records)

    monkeypatch.setattr(runner._outlet, "publish", sometimes)
    world.put(b"k", b"garbage", 3)
    with world.running(runner):
        world.wait_applied(1)
    assert len(world.dead_letters()) == 1
