"""HTTP to Kafka and PostgreSQL, all real."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from schemas.codec import Codec
from schemas.events import PlaybackReported
from schemas.placement import playback_partition
from schemas.registry import SchemaIds
from schemas.topics import IDENTITY_USERS, PLAYBACK_REPORTED
from streams.runtime.publisher import KafkaPublisher, Record
from tests.ingest.fakes import progress
from tests.integration.ingest.conftest import Tail
from tests.integration.ingest.house import House, conninfo_of
from tests.stack import Database

pytestmark = pytest.mark.services
TEMPLATE_MODE = Path(__file__).parents[2] / "examples/parse/jellyfin/progress-template-strings.json"


def client_of(house: House) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(house.app), base_url="http://door", timeout=30)


def test_reports_and_a_jellyfin_hook_reach_the_log_of_one_person_each(
    core: Database, topics: str, tail: Callable[[str], Tail], tmp_path: Path
) -> None:
    reported, identities = tail(PLAYBACK_REPORTED.name), tail(IDENTITY_USERS.name)
    house = House(topics, conninfo_of(core), tmp_path)
    trace = f"e2e-{core.name}"

    async def scene() -> list[httpx.Response]:
        headers = house.bearer | {"X-Correlation-Id": trace}
        async with house.ingest, client_of(house) as client:
            assert (await client.get("/readyz")).json()["status"] == "ready"
            batch = {"reports": [progress(event_id=f"e{n}", media=f"m-{n % 7}") for n in range(200)]}
            return [
                await client.post("/v1/playback", json=batch, headers=headers),
                await client.post(
                    f"/hooks/jellyfin/{house.jelly}",
                    content=TEMPLATE_MODE.read_bytes(),
                    headers={"Content-Type": "text/plain", "X-Correlation-Id": trace},
                ),
            ]

    answers = asyncio.run(scene())
    assert [answer.status_code for answer in answers] == [202, 202]
    codec = Codec(SchemaIds())
    messages = reported.take(lambda message: trace.encode() in (message.value() or b""), 201)
    events: list[PlaybackReported] = []
    for message in messages:
        event = codec.decode(message.value() or b"")
        assert isinstance(event, PlaybackReported)
        key = message.key() or b""
        assert (key, message.partition()) == (f"{event.user_ref}:{event.media_id}".encode(), playback_partition(key))
        events.append(event)
    native = [event for event in events if event.source_id == "home"]
    assert [event.event_id for event in native] == answers[0].json()["event_ids"] == [f"e{n}" for n in range(200)]
    assert len({event.user_ref for event in native}) == 1
    people = {event.user_ref for event in events}
    assert len(people) == 2
    published = identities.take(lambda message: (message.value() or b"").decode() in people, 2)
    assert all(b"ana" not in (message.key() or b"") for message in published)
    with psycopg.connect(core.url) as connection:
        rows = connection.execute("SELECT user_ref, published FROM core.users").fetchall()
    assert {row[0] for row in rows} == people
    assert all(row[1] for row in rows)


def test_two_doors_meeting_many_people_at_the_same_time_give_each_one_user_ref(
    core: Database, topics: str, tail: Callable[[str], Tail], tmp_path: Path
) -> None:
    reported = tail(PLAYBACK_REPORTED.name)
    houses = [House(topics, conninfo_of(core), tmp_path / str(n)) for n in range(2)]
    trace = f"two-{core.name}"
    people = [f"person-{n}" for n in range(30)]

    async def scene() -> None:
        async with houses[0].ingest, houses[1].ingest, client_of(houses[0]) as one, client_of(houses[1]) as two:
            posts = []
            for turn in range(8):
                order = people if turn % 2 else people[::-1]
                batch = {"reports": [progress(event_id=f"{turn}:{name}", user=name) for name in order]}
                client, house = ((one, houses[0]), (two, houses[1]))[turn % 2]
                headers = house.bearer | {"X-Correlation-Id": trace}
                posts.append(client.post("/v1/playback", json=batch, headers=headers))
            assert {answer.status_code for answer in await asyncio.gather(*posts)} == {202}

    asyncio.run(scene())
    codec = Codec(SchemaIds())
    refs: dict[str, set[str]] = {}
    for message in reported.take(lambda message: trace.encode() in (message.value() or b""), 240):
        event = codec.decode(message.value() or b"")
        assert isinstance(event, PlaybackReported)
        refs.setdefault(event.event_id.partition(":")[2], set()).add(event.user_ref)
    assert {name: len(found) for name, found in refs.items()} == dict.fromkeys(people, 1)
    assert len({ref for found in refs.values() for ref in found}) == len(people)


def test_a_large_batch_for_one_person_fits_the_topics_limit(core: Database, topics: str, tmp_path: Path) -> None:
    """A thousand incompressible kilobytes to one partition: no batch of the producer may exceed the topic's limit."""
    house = House(topics, conninfo_of(core), tmp_path)
    padding = [("%0250x" % (n * 0x9E3779B97F4A7C15**12))[-250:] for n in range(1, 901)]
    reports = [progress(event_id=pad, session_id=pad[::-1], device_id=pad[5:] + "x", media="m") for pad in padding]
    body = json.dumps({"reports": reports}).encode()

    async def scene() -> httpx.Response:
        async with house.ingest, client_of(house) as client:
            return await client.post(
                "/v1/playback", content=body, headers=house.bearer | {"Content-Type": "application/json"}
            )

    answer = asyncio.run(scene())
    assert (answer.status_code, answer.json()["accepted"]) == (202, 900)


def test_records_over_any_limit_of_the_broker_are_refused_and_do_not_stop_the_others(topics: str) -> None:
    async def scene() -> list[Any]:
        async with KafkaPublisher({"bootstrap.servers": topics}, timeout_s=5) as publisher:
            big = Record(PLAYBACK_REPORTED.name, 0, b"u:m", bytes(300 * 1024))
            small = Record(PLAYBACK_REPORTED.name, 0, b"u:m", b"not an event")
            refused = await asyncio.gather(publisher.publish([big]), return_exceptions=True)
            return [*refused, *await publisher.publish([small])]

    refused, accepted = asyncio.run(scene())
    assert type(refused).__name__ == "Permanent"
    assert accepted.offset >= 0
