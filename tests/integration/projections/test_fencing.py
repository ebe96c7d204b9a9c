"""Two owners of one partition: only one of them moves it, and rows stay right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from projections.offsets import Fenced, Offsets, Position
from streams.runtime.settings import Settings
from tests.integration.projections.world import World, eventually, expect_rows
from tests.projections.decisions import Household, fold, placed

pytestmark = pytest.mark.services


def test_the_second_of_two_owners_cannot_move_the_offset(world: World) -> None:
    offsets = Offsets("p", "t")
    with world.connect("projector") as one:
        seen = offsets.bind(one, offsets.read(one, [3])[3], "topic-id", 0)
    with world.connect("projector") as one:
        offsets.hold(one, [seen])
        offsets.advance(one, seen, seen.after(10, 1, []))
    with world.connect("projector") as other:
        with pytest.raises(Fenced):
            offsets.hold(other, [seen])
        with pytest.raises(Fenced):
            offsets.advance(other, seen, seen.after(5, 1, []))
    with world.connect("projector") as one:
        assert offsets.read(one, [3])[3] == Position(3, "topic-id", 1, 1, 10)


@pytest.mark.parametrize("change", ["log_epoch = 2", "topic_id = 'other'", "next_offset = 7"])
def test_whatever_changed_in_the_row_fences_its_former_owner(world: World, change: str) -> None:
    offsets = Offsets("p", "t")
    with world.connect("projector") as one:
        seen = offsets.bind(one, offsets.read(one, [3])[3], "topic-id", 0)
    world.query(f"UPDATE model.offsets SET {change}")
    with world.connect("projector") as one:
        with pytest.raises(Fenced):
            offsets.hold(one, [seen])
        with pytest.raises(Fenced):
            offsets.advance(one, seen, seen.after(1, 1, []))


def test_only_one_owner_binds_a_position_to_its_log(world: World) -> None:
    offsets = Offsets("p", "t")
    with world.connect("projector") as one:
        seen = offsets.read(one, [3])[3]
        offsets.bind(one, seen, "topic-id", 0)
    with world.connect("projector") as other, pytest.raises(Fenced):
        offsets.bind(other, seen, "topic-id", 0)


def test_two_projectors_that_both_believe_to_own_everything_make_the_rows_of_one(
    world: World, unique_name: Callable[[str], str]
) -> None:
    events = Household(21).decisions(1_500)
    settings: Settings = world.settings.model_copy(
        update={"playback": world.settings.playback.model_copy(update={"batch_records_max": 20})}
    )
    small = World(settings, world.topic, world.superuser)
    with (
        small.running(small.runner(group=unique_name("a"))) as one,
        small.running(small.runner(group=unique_name("b"))),
    ):
        for start in range(0, len(events), 150):
            small.produce(events[start : start + 150])
        eventually(lambda: not one.thread.is_alive() or small.applied() == len(events), "all is applied", 60)
    expect_rows(world.rows(), fold(placed(events)))
    [(rows, keys)] = world.query("SELECT count(*), count(DISTINCT (cache_key, version)) FROM model.outbox")
    assert rows == keys, "an invalidation was written by both"


def test_partitions_move_between_projectors_of_one_group_without_a_gap(world: World) -> None:
    events = Household(22, users=20).decisions(900)
    with world.running() as first:
        world.produce(events[:300])
        world.wait_applied(300)
        with world.running() as second:
            world.produce(events[300:600])
            eventually(lambda: not second.thread.is_alive() or world.applied() == 600, "the pair is through")
        world.produce(events[600:])
        eventually(lambda: not first.thread.is_alive() or world.applied() == 900, "the first is through")
    expect_rows(world.rows(), fold(placed(events)))
