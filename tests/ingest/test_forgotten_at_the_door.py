"""What is still said of somebody who was forgotten, at the door and in its spool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from schemas.placement import partition_of
from schemas.topics import IDENTITY_USERS
from streams.ingest.people import identity_key, marker_of_account, marker_of_person, marker_value
from streams.runtime.publisher import Record
from streams.runtime.tokens import Principal, Scope
from tests.ingest.fakes import HASH_KEY, World
from tests.ingest.test_spooling import HOME, REPORT, empty, held, numbered, scene, take


def forget(world: World, name: str) -> int:
    """As ``playhead forget`` does at the end; since when."""
    now_ms, key = world.clock.now_ms(), identity_key(HASH_KEY, "home", name)
    ref = world.people.rows.pop(("home", name)).user_ref
    for one, value in (
        (marker_of_person(HASH_KEY, ref), marker_value(now_ms)),
        (marker_of_account(HASH_KEY, key), marker_value(now_ms)),
        (key, b""),
    ):
        world.publisher.records.append(Record(IDENTITY_USERS.name, partition_of(one), one, value))
    return now_ms


def test_what_was_spooled_before_a_person_was_forgotten_is_deleted_and_makes_nobody(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await take(world, *numbered(0))
        world.publisher.away = True
        await take(world, *numbered(1, 2), *numbered(3, user="ben"))
        world.publisher.away = False
        forget(world, "ana")
        await empty(world)
        assert [event.event_id for event in world.reported()] == ["e0", "e3"]
        assert set(world.people.rows) == {("home", "ben")}
        assert held(world) == 0
        assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"ana" in path.read_bytes()]

    scene(tmp_path, act)


def test_what_is_older_is_refused_and_what_is_played_later_is_of_somebody_new(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await take(world, *numbered(0))
        [before] = world.reported()
        since = forget(world, "ana")
        world.clock.advance(1_000)
        old = replace(REPORT, event_id="old", origin="import", occurred_at=since - 1)
        untimed = replace(REPORT, event_id="untimed", origin="poll")
        refused = await take(world, old, untimed)
        assert [one.reason for one in refused.rejected] == ["forgotten", "forgotten"]
        assert ("home", "ana") not in world.people.rows
        timed = replace(REPORT, event_id="new", origin="poll", occurred_at=since + 1)
        assert (await take(world, timed, *numbered(1))).accepted == 2
        refs = {event.user_ref for event in world.reported()[1:]}
        assert len(refs) == 1
        assert before.user_ref not in refs

    scene(tmp_path, act)


@pytest.mark.parametrize("bound", [True, False])
def test_a_forgotten_user_ref_speaks_for_nobody_and_is_no_name(tmp_path: Path, bound: bool) -> None:
    async def act(world: World) -> None:
        await take(world, *numbered(0))
        [event] = world.reported()
        forget(world, "ana")
        world.clock.advance(1_000)
        # A token whose loss a door has not noticed yet; a client that was given the user_ref.
        principal = Principal("t", "home", frozenset({Scope.REPORT}), event.user_ref if bound else None)
        report = replace(REPORT, upstream_user=None if bound else event.user_ref, event_id="later")
        receipt = await take(world, report, principal=principal)
        assert [one.reason for one in receipt.rejected] == ["forgotten"]
        assert world.people.rows == {}

    scene(tmp_path, act)


def test_others_are_taken_as_ever(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await take(world, *numbered(0), *numbered(1, user="ben"))
        forget(world, "ana")
        assert (await take(world, *numbered(2, user="ben"), principal=HOME)).accepted == 1

    scene(tmp_path, act)
