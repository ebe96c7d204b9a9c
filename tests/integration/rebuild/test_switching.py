"""The switch: what it waits for, what it refuses, and that a refusal changes nothing."""

from __future__ import annotations

import time

import psycopg
import pytest

from projections.rebuild import switching, tables
from projections.rebuild.running import Rebuild
from projections.rebuild.starts import Beginning, FromTime
from projections.rebuild.switching import holding, switch
from streams.runtime.errors import Unavailable
from streams.runtime.failpoints import disarmed
from tests.integration.projections.world import World, eventually, expect_rows, projection_of
from tests.integration.rebuild.test_rebuild import household, rebuild_of, rebuilt
from tests.projections.decisions import fold, placed

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("rebuild"), pytest.mark.long]


def ready(world: World) -> Rebuild:
    rebuild = Rebuild(projection_of(world.topic), world.settings, world.contract)
    with rebuild:
        rebuild.open(Beginning())
        rebuild.catch_up()
    return rebuild


def test_a_reader_that_is_older_than_the_last_row_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switching, "READERS_WAIT_S", 0.3)
    world.produce(household(80).decisions(100))
    world.project(100)
    with rebuild_of(world) as rebuild, world.connect("reader") as reader:
        rebuild.open(Beginning())
        rebuild.catch_up()
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        [(shown,)] = reader.execute("SELECT count(*) FROM api.progress").fetchall()
        with pytest.raises(Unavailable, match="stay open"):
            rebuild.switch()
        assert reader.execute("SELECT count(*), max(model_epoch) FROM api.progress").fetchone() == (shown, 1)
        reader.commit()
        assert rebuild.switch().model_epoch == 2
        assert reader.execute("SELECT count(*), max(model_epoch) FROM api.progress").fetchone() == (shown, 2)


def test_models_at_different_offsets_are_not_switched(world: World) -> None:
    events = household(81).decisions(60)
    world.produce(events[:30])
    world.project(30)
    ready(world)
    world.produce(events[30:])
    world.project(60)
    with pytest.raises(Unavailable, match="not where the live model is"), holding(world.settings) as tx:
        switch(tx, tables.NEXT, projection_of(world.topic), disarmed)
    assert world.query("SELECT model_epoch FROM model.epoch") == [(1,)]


def test_a_projection_at_work_waits_while_it_is_held_and_goes_on_in_the_new_tables(world: World) -> None:
    events = household(82).decisions(400)
    world.produce(events[:200])
    world.project(200)
    ready(world)
    with world.running(), holding(world.settings) as tx:
        world.produce(events[200:])
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = 'playhead_projector'"
        )
        eventually(lambda: world.query(waiting) == [(1,)], "the projection waits")
        # It is no reader to be waited for: it would wait for us in turn.
        switch(tx, tables.NEXT, projection_of(world.topic), disarmed)
    world.project(400)

    expect_rows(world.rows(), fold(placed(events)))
    assert world.query("SELECT DISTINCT model_epoch FROM model.outbox WHERE cache_key <> 'model' ORDER BY 1") in (
        [(1,), (2,)],
    )


def test_a_rebuild_from_a_time_begins_at_what_was_appended_then(world: World) -> None:
    events = household(83).decisions(600)
    world.produce(events[:300])
    between = int(time.time() * 1000) + 1
    eventually(lambda: time.time() * 1000 > between + 1, "the clock moves")
    world.produce(events[300:])
    world.project(600)
    with rebuild_of(world) as rebuild:
        rebuild.open(FromTime(between))
        rebuild.catch_up()
        assert rebuild.records == 300
        rebuild.drop()

    rebuilt(world, FromTime(between))

    expect_rows(world.rows(), fold(placed(events)))
