"""The playback projection on real services: rows equal the fold, replays change nothing."""

from __future__ import annotations

from projections.offsets import rewind
from tests.integration.projections.world import World, expect_rows
from tests.projections.decisions import Household, fold, placed


def test_rows_equal_the_fold_of_the_log(world: World) -> None:
    events = Household(1).decisions(3_000)
    world.produce(events)

    world.project(len(events))

    expect_rows(world.rows(), fold(placed(events)))


def test_replaying_the_whole_log_changes_nothing(world: World) -> None:
    events = Household(2).decisions(2_000)
    world.produce(events)
    world.project(len(events))
    before, stale = world.digests(), world.query("SELECT count(*) FROM model.outbox")

    rewind(world.settings.postgres.conninfo("projector"), "playback")
    assert world.applied() == 0
    world.project(len(events))

    assert world.digests() == before
    assert world.query("SELECT count(*) FROM model.outbox") == stale
