"""What was written to a server comes back by hook and poll, and is known. The test writes the ledger's rows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from schemas.events import PlaybackReported
from streams.domain.identity import media_id
from streams.ingest.echoes import value_of, way_of
from streams.ingest.hooks import FORMATS, ParsedReport
from streams.runtime.echoes import Value
from streams.runtime.spool import Spool
from streams.runtime.tokens import Principal, Scope
from tests.ingest.fakes import World, progress

JELLY = Principal("poll", "jelly", frozenset({Scope.REPORT}))
FILM = media_id("jelly", "a1b2c3d4e5f60718293a4b5c6d7e8f90")


def hook(position_ms: int) -> dict[str, Any]:
    return {
        "NotificationType": "PlaybackProgress",
        "UserId": "3f1c0d5e8a2b4c6d9e0f112233445566",
        "ItemId": "a1b2c3d4e5f60718293a4b5c6d7e8f90",
        "ItemType": "Movie",
        "RunTimeTicks": 66_000_000_000,
        "PlaybackPositionTicks": position_ms * 10_000,
        "DeviceId": "tv-17",
    }


def polled(position_ms: int, event_id: str = "p") -> ParsedReport:
    return ParsedReport(
        kind="progress",
        origin="poll",
        event_id=event_id,
        upstream_user="3f1c0d5e8a2b4c6d9e0f112233445566",
        upstream_media="a1b2c3d4e5f60718293a4b5c6d7e8f90",
        position_ms=position_ms,
    )


async def known_person(world: World) -> str:
    """The user_ref of the one that the hooks are about."""
    await world.post("/hooks/jellyfin", hook(1_000), token=world.jelly)
    return world.reported()[-1].user_ref


async def by_hook(world: World, position_ms: int) -> PlaybackReported:
    await world.post("/hooks/jellyfin", hook(position_ms), token=world.jelly)
    return world.reported()[-1]


async def by_poll(world: World, position_ms: int, event_id: str = "p") -> PlaybackReported:
    await world.door.take(JELLY, [polled(position_ms, event_id)], format="poll", correlation_id="c")
    return world.reported()[-1]


def test_a_value_comes_back_once_by_hook_and_once_by_poll_as_an_echo() -> None:
    async def scenario() -> None:
        world = World()
        ana = await known_person(world)
        await world.ledger.sent("jelly", ana, FILM, Value(position_ms=1_830_000))
        assert (await by_hook(world, 1_830_000)).origin == "echo"
        assert (await by_poll(world, 1_830_000)).origin == "echo"
        # What says it then, somebody else said.
        assert (await by_hook(world, 1_830_000)).origin == "webhook"
        assert (await by_poll(world, 1_830_000, "p2")).origin == "poll"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("back", "origin"), [(1_830_999, "echo"), (1_829_000, "echo"), (1_827_999, "poll"), (1_832_000, "poll")]
)
def test_a_position_comes_back_in_whole_seconds_cut_or_rounded(back: int, origin: str) -> None:
    async def scenario() -> None:
        world = World()
        ana = await known_person(world)
        await world.ledger.sent("jelly", ana, FILM, Value(position_ms=1_830_400))
        assert (await by_poll(world, back)).origin == origin

    asyncio.run(scenario())


def test_what_was_written_for_another_person_item_or_source_is_no_echo() -> None:
    async def scenario() -> None:
        world = World()
        ana = await known_person(world)
        await world.ledger.sent("jelly", "b" * 32, FILM, Value(position_ms=1_830_000))
        await world.ledger.sent("jelly", ana, media_id("jelly", "other"), Value(position_ms=1_830_000))
        await world.ledger.sent("home", ana, FILM, Value(position_ms=1_830_000))
        await world.ledger.sent("jelly", ana, FILM, Value(played=True))
        assert (await by_hook(world, 1_830_000)).origin == "webhook"

    asyncio.run(scenario())


def test_a_client_that_reports_the_same_value_is_no_echo() -> None:
    async def scenario() -> None:
        world = World()
        await world.post("/v1/playback", progress(event_id="1"), token=world.report)
        event = world.reported()[-1]
        await world.ledger.sent("home", event.user_ref, event.media_id, Value(position_ms=1_830_000))
        await world.post("/v1/playback", progress(event_id="2"), token=world.report)
        assert world.reported()[-1].origin == "client"

    asyncio.run(scenario())


def test_an_echo_whose_acknowledgement_got_lost_is_an_echo_when_it_is_sent_again() -> None:
    async def scenario() -> None:
        world = World()
        ana = await known_person(world)
        await world.ledger.sent("jelly", ana, FILM, Value(position_ms=1_830_000))
        world.publisher.away = True
        answer = await world.post("/hooks/jellyfin", hook(1_830_000), token=world.jelly)
        assert answer.status_code == 503
        world.publisher.away = False
        assert (await by_hook(world, 1_830_000)).origin == "echo"

    asyncio.run(scenario())


def test_with_the_database_away_reports_pass_as_what_they_are() -> None:
    async def scenario() -> None:
        world = World()
        ana = await known_person(world)
        await world.ledger.sent("jelly", ana, FILM, Value(position_ms=1_830_000))
        world.database.away = True
        assert (await by_hook(world, 1_830_000)).origin == "webhook"

    asyncio.run(scenario())


def test_an_echo_that_waited_in_the_spool_is_an_echo_when_it_leaves_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Spool(tmp_path, bytes_max=1_000_000, records_max=1_000) as spool:
            world = World(spool=spool)
            ana = await known_person(world)
            world.publisher.away = True
            await by_hook(world, 60_000)  # spooled: nothing else may overtake it
            await world.ledger.sent("jelly", ana, FILM, Value(position_ms=1_830_000))
            await by_hook(world, 1_830_000)
            world.publisher.away = False
            drain = world.another_drain(world.another_door())
            while await drain.step():
                pass
            assert [(event.position_ms, event.origin) for event in world.reported()[1:]] == [
                (60_000, "webhook"),
                (1_830_000, "echo"),
            ]
            assert (await by_hook(world, 1_830_000)).origin == "webhook"

    asyncio.run(scenario())


def test_every_format_but_the_clients_own_can_bring_an_echo() -> None:
    assert {name: way_of(name) for name in FORMATS} == {name: None if name == "native" else "hook" for name in FORMATS}
    assert way_of("poll") == "poll"


@pytest.mark.parametrize(
    ("report", "value"),
    [
        ({"kind": "finish"}, Value(played=True)),
        ({"kind": "stop", "played": True, "position_ms": 5}, Value(played=True)),
        ({"kind": "mark_unplayed"}, Value(played=False)),
        ({"kind": "clear_position"}, Value(position_ms=0)),
        ({"kind": "pause", "position_ms": 5_000}, Value(position_ms=5_000)),
        ({"kind": "stop"}, None),
        ({"kind": "start", "position_ms": 5_000}, None),
    ],
)
def test_what_a_report_says_of_what_may_have_been_written(report: dict[str, Any], value: Value | None) -> None:
    assert value_of(ParsedReport(origin="webhook", upstream_media="m", **report)) == value
