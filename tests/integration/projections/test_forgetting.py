"""A person is forgotten, in the read models: no row is left, all of theirs is stale, and no replay brings them back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from projections.offsets import adopt_log, rewind
from projections.rebuild import tables
from projections.rebuild.running import Rebuild
from projections.rebuild.starts import Beginning
from schemas.events import PlaybackDecided, SourcePosition, UserForgotten
from streams.runtime.forgetting import forget_in_copies
from tests.integration.projections.world import World, eventually, projection_of
from tests.projections.decisions import NOW_MS, REPORTED_TOPIC_ID, Household, partition_for

pytestmark = pytest.mark.services

TABLES = ("playback_progress", "user_versions", "progress_history", "plays", "listening_time", "processed_events")


def forgets(person: PlaybackDecided, offset: int) -> UserForgotten:
    """What the agent says when it has forgotten who this decision is about."""
    return UserForgotten(
        event_id="f-1",
        correlation_id="c-f",
        source_id="operator",
        received_at=NOW_MS,
        user_ref=person.user_ref,
        cause=SourcePosition(REPORTED_TOPIC_ID, partition_for(person), offset, 0),
    )


def rows_of(world: World, user: str) -> dict[str, int]:
    return {
        table: int(world.query(f"SELECT count(*) FROM model.{table} WHERE user_ref = %s", user)[0][0])
        for table in TABLES
    }


def forget(world: World, person: PlaybackDecided, offset: int) -> None:
    event = forgets(person, offset)
    world.put(event.user_ref.encode(), world.contract.encode(event), partition_for(person))


def stale_of(world: World, user: str) -> list[str]:
    found = world.query("SELECT cache_key FROM model.outbox WHERE reason = 'forgotten' ORDER BY cache_key")
    return [key for (key,) in found if user in key]


def test_given_a_person_is_forgotten_then_no_row_is_left_and_no_replay_brings_them_back(world: World) -> None:
    house = Household(seed=7)
    before = house.decisions(300)
    ana = before[0]
    world.produce(before)
    world.project(300)
    media = sorted(
        row[0] for row in world.query("SELECT media_id FROM model.playback_progress WHERE user_ref = %s", ana.user_ref)
    )
    assert all(rows_of(world, ana.user_ref).values())
    forget(world, ana, 10_000)
    # What a door that has not heard could add, if the agent let it.
    late = [replace(ana, cause=replace(ana.cause, offset=20_000), media_id="new" * 8, event_id="late")]
    world.produce(late)
    world.project(302)
    assert not any(rows_of(world, ana.user_ref).values())
    stale = [f"continue:{ana.user_ref}", *(f"progress:{ana.user_ref}:{one}" for one in media)]
    assert stale_of(world, ana.user_ref) == stale
    live = world.digests()
    for table, rows in world.rows().items():
        assert {row["user_ref"] for row in rows.values()} == {one.user_ref for one in before} - {ana.user_ref}, table

    # Nor for a moment: a replay drops what it meets of her before it meets that she was forgotten.
    projector = world.settings.postgres.conninfo("projector")
    world.query("DELETE FROM model.outbox")
    rewind(projector, "playback")
    world.project(302)
    assert world.digests() == live
    assert stale_of(world, ana.user_ref) == stale[:1]
    assert world.query("SELECT count(*) FROM model.outbox WHERE reason <> 'forgotten'") == [(0,)]

    # A log that lost the word, under a higher log_epoch: what the log says wins over every row, but not over this.
    adopt_log(projector, "playback")
    world.project(302)
    assert not any(rows_of(world, ana.user_ref).values())
    assert world.query("SELECT user_ref, log_epoch FROM model.forgotten_users") == [(ana.user_ref, 1)]


def test_given_everything_is_in_one_batch_with_the_word_then_only_the_others_have_rows(world: World) -> None:
    before = Household(seed=8).decisions(60)
    ana = before[0]
    world.produce(before)
    forget(world, ana, 10_000)
    world.project(61)
    assert not any(rows_of(world, ana.user_ref).values())
    assert stale_of(world, ana.user_ref) == [f"continue:{ana.user_ref}"]
    assert not world.dead_letters()
    people = world.query("SELECT DISTINCT user_ref FROM model.playback_progress")
    assert {user for (user,) in people} == {one.user_ref for one in before} - {ana.user_ref}


def beside(world: World, user: str) -> dict[str, int]:
    """How many rows of a person each schema beside the live one has."""
    return {
        schema: sum(
            int(world.query(f"SELECT count(*) FROM {schema}.{table} WHERE user_ref = %s", user)[0][0])
            for table in TABLES
        )
        for schema in tables.COPIES
    }


def test_who_is_forgotten_is_forgotten_in_tables_that_nobody_folds_into_any_more(world: World) -> None:
    before = Household(seed=9).decisions(120)
    ana, ben = before[0], next(one for one in before if one.user_ref != before[0].user_ref)
    world.produce(before)
    world.project(120)
    for schema, switched in ((tables.NEXT, True), (tables.NEXT, False), (tables.CHECK, False)):
        with Rebuild(projection_of(world.topic), world.settings, world.contract, schema=schema) as rebuild:
            rebuild.open(Beginning())
            assert rebuild.catch_up()
            if switched:
                rebuild.switch()
    assert all(beside(world, ana.user_ref).values())
    bens = beside(world, ben.user_ref)
    assert all(bens.values())

    forget(world, ana, 10_000)
    with world.running():
        eventually(lambda: not any(beside(world, ana.user_ref).values()), "nothing of her is left anywhere")
    assert not any(rows_of(world, ana.user_ref).values())
    assert beside(world, ben.user_ref) == bens

    with world.connect("door") as door:
        assert forget_in_copies(door, [ben.user_ref]) == sum(bens.values())
    assert not any(beside(world, ben.user_ref).values())
