"""Scans asked for and confirmed by HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from schemas.library import ScanConfirmed, ScanRequested
from schemas.topics import LIBRARY_COMMANDS
from streams.runtime.commands import command_partition, parse_scan_id, scan_id
from tests.ingest.fakes import World


def post(world: World, path: str, token: str, body: Any = None) -> Any:
    return asyncio.run(world.post(path, body, token=token))


def commands(world: World) -> list[Any]:
    return [world.codec.decode(record.value) for record in world.publisher.of(LIBRARY_COMMANDS.name)]


def test_a_scan_that_is_asked_for_is_in_the_log_and_named_by_its_place_there() -> None:
    world = World()
    answer = post(world, "/v1/sources/music/scans", world.operate, {"full": True})
    assert answer.status_code == 202
    [record] = world.publisher.of(LIBRARY_COMMANDS.name)
    assert (record.key, record.partition) == (b"music", command_partition("music"))
    [command] = commands(world)
    assert isinstance(command, ScanRequested)
    assert (command.requested_by, command.full, command.replaces) == ("operator", True, None)
    assert command.correlation_id == answer.headers["X-Correlation-Id"]
    scan = answer.json()["scan"]
    assert parse_scan_id(scan) == ("music", answer.json()["generation"])
    assert answer.headers["Location"] == f"/v1/scans/{scan}"


def test_without_a_body_only_what_changed_is_read() -> None:
    world = World()
    assert post(world, "/v1/sources/music/scans", world.music).status_code == 202
    assert [command.full for command in commands(world)] == [False]


def test_a_held_scan_is_confirmed_under_its_generation() -> None:
    world = World()
    assert post(world, "/v1/scans/music:41/confirm", world.operate).status_code == 202
    [command] = commands(world)
    assert isinstance(command, ScanConfirmed)
    assert (command.source_id, command.generation) == ("music", 41)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/sources/nobody/scans", 404),
        ("/v1/sources/home/scans", 409),
        ("/v1/scans/music/confirm", 404),
        ("/v1/scans/music:x/confirm", 404),
        ("/v1/scans/nobody:1/confirm", 404),
    ],
)
def test_what_is_not_there_can_not_be_scanned(path: str, status: int) -> None:
    world = World()
    assert post(world, path, world.operate).status_code == status
    assert world.publisher.records == []


def test_a_token_operates_its_own_source_only_and_others_not_at_all() -> None:
    world = World()
    world.kinds.kinds["home"] = "files"
    assert post(world, "/v1/sources/home/scans", world.music).status_code == 404
    assert post(world, "/v1/sources/home/scans", world.report).status_code == 403
    assert post(world, "/v1/sources/home/scans", world.read).status_code == 403
    assert world.publisher.records == []


@pytest.mark.parametrize("away", ["publisher", "database"])
def test_a_scan_is_not_promised_while_something_is_away(away: str) -> None:
    world = World()
    # Known to the door, so that it is not the token that can't be told.
    assert post(world, "/v1/sources/music/scans", world.operate).status_code == 202
    getattr(world, away).away = True
    answer = post(world, "/v1/sources/music/scans", world.operate)
    assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)


def test_an_id_of_a_scan_names_source_and_generation() -> None:
    assert parse_scan_id(scan_id("a.b-c_1", 0)) == ("a.b-c_1", 0)
    for text in ("", "music", "music:", ":1", "Music:1", "music:-1", "music:1:2", "music:" + "9" * 19):
        assert parse_scan_id(text) is None
