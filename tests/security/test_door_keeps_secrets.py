"""Canaries put into every corner of a request are in no log line, metric or error answer."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import structlog
from prometheus_client import generate_latest

from streams.runtime import logs, metrics
from streams.runtime.tokens import Principal, Scope, hash_of
from tests.ingest.fakes import World, progress, token

CANARY_TOKEN = "ph_" + "CANARYtoken" * 3 + "0123456789"
UNKNOWN_TOKEN = "ph_" + "CANARYother" * 3 + "0123456789"
CANARY = "canary"
HEADERS: tuple[dict[str, str], ...] = (
    {"Content-Type": "application/json"},
    {"Content-Type": "canary/canary"},
    {"Content-Type": "application/json", "Authorization": f"Bearer {CANARY_TOKEN}"},
    {"Content-Type": "application/json", "Authorization": f"Canary {CANARY_TOKEN}"},
    {"Content-Type": "application/json", "Idempotency-Key": "canary " * 60},
    {"Content-Type": "application/json", "X-Correlation-Id": "canary canary"},
)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level, before = root.handlers[:], root.level, structlog.get_config()
    stream = io.StringIO()
    logs.configure("test", level="DEBUG", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**before)


def world_with_canaries() -> World:
    world = World()
    world.tokens.rows[hash_of(CANARY_TOKEN)] = Principal("t-c", "jelly", frozenset({Scope.REPORT}))
    return world


def bodies() -> Iterator[bytes]:
    hook = {
        "NotificationType": "PlaybackProgress",
        "UserId": "canary-user",
        "NotificationUsername": "canary name",
        "ItemId": "canary-item",
        "ItemType": "Movie",
        "Name": "canary title",
        "ServerUrl": "http://canary.example",
        "DeviceName": "canary's phone",
        "PlaybackPositionTicks": 10_000_000,
        "RunTimeTicks": 66_000_000_000,
    }
    yield json.dumps(hook).encode()
    yield json.dumps(hook | {"PlaybackPositionTicks": "canary"}).encode()
    # A plain event name may come back in the answer to its sender; anything else may not.
    yield json.dumps(hook | {"NotificationType": "<canary>"}).encode()
    yield json.dumps(hook | {"UserId": "canary\0"}).encode()
    yield json.dumps(hook | {"ItemId": "canary" * 100}).encode()
    yield json.dumps(progress(user="canary", media="canary", device_id="canary")).encode()
    yield json.dumps(progress(user="canary", kind="canary")).encode()
    yield json.dumps({"reports": [progress(user="canary", occurred_at="canary")] * 2}).encode()
    yield b'{"canary'
    yield b"canary=canary&canary"


async def sweep(world: World) -> list[httpx.Response]:
    answers: list[httpx.Response] = []
    async with world.client() as client:
        for body in bodies():
            for path in (
                f"/hooks/jellyfin/{CANARY_TOKEN}",
                f"/hooks/jellyfin/{CANARY_TOKEN}/",
                f"/hooks/canary/{CANARY_TOKEN}",
                f"/hooks/jellyfin/{UNKNOWN_TOKEN}",
                f"/hooks/jellyfin/{CANARY_TOKEN}?api_key=canary",
                f"/canary/{CANARY_TOKEN}",
                "/v1/playback?token=canary",
            ):
                for headers in HEADERS:
                    # One by one: the order of answers is the order of requests.
                    answer = await client.post(path, content=body, headers=headers)
                    answers.append(answer)
            answers.append(await client.get(f"/hooks/jellyfin/{CANARY_TOKEN}"))
    return answers


def assert_no_canary(text: str) -> None:
    assert CANARY not in text.lower(), text[max(0, text.lower().index(CANARY) - 200) :][:400]


@pytest.mark.parametrize("weather", ["fair", "kafka away", "database away", "bug"])
def test_no_canary_comes_out(log: io.StringIO, weather: str) -> None:
    world = world_with_canaries()

    def burst(_: object) -> None:
        raise RuntimeError(f"canary {CANARY_TOKEN}")

    match weather:
        case "kafka away":
            world.publisher.away = True
        case "database away":
            world.database.away = True
        case "bug":
            world.publisher.on_publish = burst
    answers = asyncio.run(sweep(world))
    statuses = {answer.status_code for answer in answers}
    assert (
        statuses
        >= {
            "fair": {200, 202, 401, 404, 405, 415, 422, 400},
            "kafka away": {503, 401, 422},
            "database away": {503},
            "bug": {500},
        }[weather]
    )
    for answer in answers:
        assert_no_canary(answer.text)
        assert_no_canary(str(answer.headers.raw))
    assert_no_canary(log.getvalue())
    assert_no_canary(generate_latest(metrics.REGISTRY).decode())


def test_no_person_stands_in_any_record() -> None:
    world = world_with_canaries()
    asyncio.run(world.post("/v1/playback", progress(user="canary-person"), token=world.report))
    assert world.publisher.records
    for record in world.publisher.records:
        assert b"canary" not in record.key + record.value + repr(record.headers).encode()


def test_a_crafted_correlation_id_forges_no_log_line(log: io.StringIO) -> None:
    world = World()
    evil = 'x","event":"forged'
    asyncio.run(world.post("/v1/playback", progress(), token=world.report, X_Correlation_Id=evil))
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert all(line["event"] != "forged" for line in lines)


@pytest.mark.parametrize("path", ["/v1/playback", "/hooks/jellyfin", "/1/submit-listens"])
@pytest.mark.parametrize("letter", ["d", None])
def test_every_ingest_route_needs_a_token_with_the_scope(path: str, letter: str | None) -> None:
    world = World()
    answer = asyncio.run(world.post(path, progress(), token=token(letter) if letter else None))
    assert answer.status_code == (403 if letter else 401)
    assert world.publisher.records == []


def test_every_post_route_is_behind_a_guard() -> None:
    """A route added without one is found here: no POST answers anything but 401 to a stranger."""
    world = World()
    paths: dict[str, Any] = world.app.openapi()["paths"]
    posts = [path for path, methods in paths.items() if "post" in methods]
    assert posts
    for path in posts:
        concrete = path.replace("{format}", "jellyfin").replace("{token}", "ph_stranger")
        assert asyncio.run(world.post(concrete, progress())).status_code == 401, path
