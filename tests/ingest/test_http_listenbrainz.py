"""The ListenBrainz-compatible part."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.ingest.fakes import World

SINGLE = (Path(__file__).parents[1] / "examples/parse/listenbrainz/single.json").read_bytes()


def submit(world: World, token: str, content: bytes = SINGLE) -> Any:
    return asyncio.run(world.post("/1/submit-listens", content=content, Authorization=f"Token {token}"))


def validate(world: World, token: str) -> Any:
    async def get() -> Any:
        async with world.client() as client:
            return await client.get("/1/validate-token", headers={"Authorization": f"Token {token}"})

    return asyncio.run(get()).json()


def test_a_listen_of_a_token_bound_to_a_person_is_theirs() -> None:
    world = World()
    answer = submit(world, world.bound)
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    events = world.reported()
    assert {(event.user_ref, event.media_kind) for event in events} == {("b" * 32, "music")}
    assert [event.kind for event in events] == ["start", "progress", "finish"]


def test_a_token_that_is_nobodys_cannot_submit() -> None:
    world = World()
    answer = submit(world, world.report)
    assert (answer.status_code, answer.json()["rejected"][0]["reason"]) == (422, "missing_user")
    assert submit(world, "ph_wrong").status_code == 401


def test_validate_token_says_yes_only_to_a_token_that_can_submit() -> None:
    world = World()
    assert validate(world, world.bound)["valid"] is True
    assert validate(world, world.report)["valid"] is False
    assert validate(world, "ph_wrong")["valid"] is False
