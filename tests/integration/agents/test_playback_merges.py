"""A media's upstream id is renewed while a person watches it: from the door to what is read, all real."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer

from schemas.ids import SchemaIds
from schemas.library import MediaMerged
from schemas.position import SourcePosition
from schemas.topics import MEDIA_MERGED, PLAYBACK_DECIDED
from streams.agents.playback import AGENT
from streams.domain.identity import media_id
from streams.runtime.contract import Contract
from tests.faults.world import SOURCE, World, playhead_world
from tests.integration.projections.world import eventually, read_all

pytestmark = pytest.mark.services

SURVIVOR, ENDED = media_id(SOURCE, "old-name"), media_id(SOURCE, "new-name")
NOW_MS = int(time.time() * 1000)


def report(media: str, minute: int, position_ms: int, listened_ms: int) -> dict[str, Any]:
    return {
        "event_id": f"{media}-{minute}",
        "user": "ana",
        "media": media,
        "media_kind": "video",
        "session_id": media,
        "kind": "progress",
        "position_ms": position_ms,
        "duration_ms": 7_200_000,
        "listened_ms": listened_ms,
        "occurred_at": NOW_MS - 3_600_000 + minute * 60_000,
    }


def tell_agents(world: World) -> None:
    """The library agent's word: a copy in every partition."""
    event = MediaMerged(
        event_id="e-merge",
        correlation_id="c-merge",
        source_id=SOURCE,
        received_at=NOW_MS,
        cause=SourcePosition("library-topic", 0, 0, 1),
        media_id=ENDED,
        survivor=SURVIVOR,
    )
    value = Contract(SchemaIds(), registry=None).encode(event)
    producer = Producer(world.settings.kafka.client())
    for partition in range(MEDIA_MERGED.partitions):
        producer.produce(MEDIA_MERGED.name, key=ENDED.encode(), value=value, partition=partition)
    assert producer.flush(30) == 0


def tell_read_models(world: World) -> None:
    """The library projection's row."""
    with psycopg.connect(world.superuser) as connection:
        connection.execute("INSERT INTO model.media_merges VALUES (%s, %s, 0, 1, 0)", (ENDED, SURVIVOR))


def agents_know(world: World) -> bool:
    """Every partition of the agent's aliases has reached its changelog."""
    changelog = f"{AGENT.name}-aliases-changelog"
    partitions = {
        message.partition() for message in read_all(world.settings.kafka, changelog) if message.key() == ENDED.encode()
    }
    return len(partitions) == MEDIA_MERGED.partitions


def read(world: World, name: str) -> dict[str, Any]:
    answer = world.client.get(f"/v1/users/ana/progress/{name}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_state_follows_a_media_whose_upstream_id_was_renewed() -> None:
    # The row is written without the projection, so no cache is told of it.
    with playhead_world(cache=False) as world:
        world.send([report("old-name", 0, 600_000, 60_000), report("new-name", 5, 900_000, 120_000)])
        world.settle()
        assert [read(world, name)["media"] for name in ("old-name", "new-name")] == [SURVIVOR, ENDED]

        tell_agents(world)
        tell_read_models(world)
        before = [read(world, name) for name in ("old-name", "new-name", SURVIVOR, ENDED)]
        assert all(one == before[0] for one in before)
        told = before[0]
        assert (told["media"], told["position_ms"], told["listened_ms"]) == (SURVIVOR, 900_000, 180_000)
        listed = world.client.get("/v1/users/ana/continue").json()["items"]
        assert [item["media"] for item in listed] == [SURVIVOR]

        eventually(lambda: agents_know(world), "the agents know of the merge", 60)
        world.send([report("new-name", 6, 960_000, 180_000)])
        world.settle()
        after = [read(world, name) for name in ("old-name", "new-name")]
        assert after[0] == after[1]
        assert (after[0]["media"], after[0]["position_ms"], after[0]["listened_ms"]) == (SURVIVOR, 960_000, 240_000)
        assert after[0]["version"]["offset"] > told["version"]["offset"]
        history = world.client.get("/v1/users/ana/history/new-name").json()
        assert [item["event_id"] for item in history["items"]] == ["new-name-6", "new-name-5", "old-name-0"]
        contract = Contract(SchemaIds(), registry=None)
        decided = [contract.decode(m.value() or b"") for m in read_all(world.settings.kafka, PLAYBACK_DECIDED.name)]
        assert [(getattr(one, "media_id", None), getattr(one, "joined", None)) for one in decided] == [
            (SURVIVOR, ()),
            (ENDED, ()),
            (SURVIVOR, (ENDED,)),
        ]
