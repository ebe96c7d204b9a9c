"""Another log than the one that was read: refused with an explanation, nothing skipped; adopted when told to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from projections.log_guard import LogGuard
from projections.offsets import adopt_log
from streams.runtime.clock import SystemClock
from streams.runtime.errors import ConfigurationError
from streams.runtime.kafka import topic_id
from tests.integration.projections.world import World, decided_topic, eventually, expect_rows
from tests.projections.decisions import Household, fold, placed

pytestmark = pytest.mark.services


def adopt(world: World) -> int:
    return adopt_log(world.settings.postgres.conninfo("projector"), "playback")


def refused(world: World, why: str) -> None:
    """Starting is refused, with the reason and the way out, and nothing moves."""
    before, applied = world.digests(), world.applied()
    with world.running() as running:
        said = running.ended_with(ConfigurationError)
    assert why in said
    assert "playhead adopt-log playback" in said
    assert "Nothing was skipped" in said
    assert (world.digests(), world.applied()) == (before, applied)


def test_a_topic_made_again_is_refused_at_start_and_adopted_under_a_higher_epoch(world: World) -> None:
    first, second = Household(10).decisions(200), Household(11).decisions(300)
    world.produce(first)
    world.project(200)
    world.delete_topic()
    world.create_topic()
    world.produce(second)

    refused(world, "deleted and made again")
    assert adopt(world) == 2
    world.project(300)

    expect_rows(world.rows(), fold([*placed(first), *placed(second, log_epoch=2)]))
    new_id = topic_id(world.settings.kafka, world.topic.name)
    assert world.query("SELECT DISTINCT topic_id, log_epoch FROM model.offsets") == [(new_id, 2)]


def test_the_same_keys_of_an_adopted_log_win_though_their_offsets_are_lower(world: World) -> None:
    first, again = Household(12).decisions(400), Household(12).decisions(30)
    world.produce(first)
    world.project(400)
    world.delete_topic()
    world.create_topic()
    world.produce(again)
    adopt(world)
    world.project(30)

    rows = world.rows()["playback_progress"]
    expected = fold(placed(again, log_epoch=2))["playback_progress"]
    for key, row in expected.items():
        assert (rows[key]["log_epoch"], rows[key]["version"]) == (2, row["version"])
        assert rows[key]["position_ms"] == row["position_ms"]


@pytest.mark.parametrize("refilled", [False, True], ids=["left empty", "filled beyond where it stood"])
def test_a_topic_made_again_under_a_running_projector_stops_it(world: World, refilled: bool) -> None:
    events = Household(13).decisions(100)
    world.produce(events)
    with world.running() as running:
        world.wait_applied(100)
        before = world.digests()
        world.delete_topic()
        world.create_topic()
        if refilled:
            world.produce(Household(14).decisions(600))
        said = running.ended_with(ConfigurationError)
    assert "playhead adopt-log playback" in said
    assert world.digests() == before
    assert world.applied() == 100


def test_a_batch_whose_topic_was_replaced_before_its_commit_is_not_committed(
    world: World, unique_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = World(world.settings, decided_topic(unique_name("other")), world.superuser)
    other.create_topic()
    events = Household(23).decisions(60)
    world.produce(events[:30])
    runner = world.runner()
    elsewhere = LogGuard(world.settings.kafka, other.topic, "playback", SystemClock())
    with world.running(runner) as running:
        world.wait_applied(30)
        before = world.digests()
        # From now on whoever asks, after a fetch, is told of another topic.
        monkeypatch.setattr(runner._guard, "ask", elsewhere.ask)
        monkeypatch.setattr(runner._guard, "check", lambda positions: None)
        world.produce(events[30:])
        assert "deleted and made again" in running.ended_with(ConfigurationError)
    assert (world.digests(), world.applied()) == (before, 30)


def test_a_log_whose_head_was_cut_beyond_us_is_refused_and_adopted_from_its_new_head(world: World) -> None:
    events = Household(15, users=1).decisions(300)
    world.produce(events[:100])
    world.project(100)
    world.produce(events[100:])
    world.cut_head(200)

    refused(world, "the log begins at 200: its head was cut off")
    adopt(world)
    world.project(300)

    head, rest = placed(events)[:100], placed(events, log_epoch=2)[200:]
    expect_rows(world.rows(), fold([*head, *rest]))


def test_records_cut_off_behind_us_are_no_loss(world: World) -> None:
    events = Household(16).decisions(200)
    world.produce(events[:100])
    world.project(100)
    world.cut_head(1_000)
    world.produce(events[100:])
    world.project(200)
    expect_rows(world.rows(), fold(placed(events)))


def test_a_log_cut_under_a_running_projector_that_lags_stops_it(world: World) -> None:
    events = Household(17, users=1).decisions(100)
    world.produce(events[:50])
    with world.running() as running:
        world.wait_applied(50)
        world.query("UPDATE model.offsets SET next_offset = 10 WHERE next_offset = 50")
        world.cut_head(30)
        world.produce(events[50:])
        assert "the log begins at 30" in running.ended_with(ConfigurationError)
    assert world.applied() == 10


def test_a_lost_tail_is_refused(world: World) -> None:
    events = Household(18, users=1).decisions(60)
    world.produce(events)
    world.project(60)
    # As after a broker came back with an older disk: we stand where the log has not been yet.
    world.query("UPDATE model.offsets SET next_offset = 75 WHERE next_offset = 60")
    refused(world, "the log ends at 60: its tail was lost")


def test_history_that_was_gone_before_the_first_start_is_refused(world: World) -> None:
    world.produce(Household(19, users=1).decisions(20))
    world.cut_head(5)
    with world.running() as running:
        assert "the log begins at 5" in running.ended_with(ConfigurationError)
    assert world.query("SELECT count(*) FROM model.processed_events") == [(0,)]


def test_another_number_of_partitions_is_refused(world: World, unique_name: Callable[[str], str]) -> None:
    odd = World(world.settings, decided_topic(unique_name("odd")), world.superuser)
    odd.create_topic(partitions=6)
    with odd.running() as running:
        said = running.ended_with(ConfigurationError)
    assert "6 partitions and 12 are wanted" in said


def test_a_projection_that_never_ran_has_no_log_to_adopt(world: World) -> None:
    with pytest.raises(ConfigurationError, match="never run"):
        adopt(world)


def test_adopting_under_a_running_projector_restarts_it_from_the_first_record(world: World) -> None:
    events = Household(20).decisions(150)
    world.produce(events[:100])
    with world.running() as running:
        world.wait_applied(100)
        adopt(world)
        world.produce(events[100:])
        eventually(lambda: not running.thread.is_alive() or world.applied() == 150, "all is applied again")
    assert {row[0] for row in world.query("SELECT log_epoch FROM model.playback_progress")} == {2}
