"""Where a unit starts: every contradiction between store, changelog, group and log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams.engine import Refused
from streams.engine.changelog import SourceMark
from streams.engine.resume import LogRange, check_changelogs, rebuild_reason, replay_start, resume_offset
from streams.engine.store import Position, StoreState

NOW = 1_000_000.0
HOUR = 3600.0
LOG = LogRange("id", 0, 100, 100)


def state(offset: int = 50, topic_id: str = "id", age: float = 0.0) -> StoreState:
    return StoreState(NOW - age, {"log": Position(topic_id, offset)}, {})


def reason(given: StoreState, log: LogRange = LOG) -> str | None:
    return rebuild_reason(given, {"log": log}, NOW, 20 * HOUR)


def test_invariant_08_given_a_usable_store_then_it_is_continued() -> None:
    assert reason(state()) is None
    assert reason(state(100)) is None
    assert replay_start("log", 0, state(50), LOG) == 50


@pytest.mark.parametrize(
    ("given", "log", "why"),
    [
        (state(topic_id="other"), LOG, "recreated"),
        (state(101), LOG, "beyond the end"),
        (state(5), LogRange("id", 6, 100, 100), "before the start"),
    ],
)
def test_invariant_08_given_a_store_that_does_not_fit_its_changelog_then_it_is_rebuilt(
    given: StoreState, log: LogRange, why: str
) -> None:
    assert why in str(reason(given, log))


def test_invariant_08_given_no_store_and_a_changelog_without_its_head_then_refused() -> None:
    with pytest.raises(Refused, match="head was deleted"):
        replay_start("log", 0, None, LogRange("id", 1, 100, 100))
    assert replay_start("log", 0, None, LOG) == 0


def test_pitfall_14_given_a_copy_older_than_tombstones_live_then_it_is_rebuilt() -> None:
    assert reason(state(age=19.9 * HOUR)) is None
    assert "20.1 h old" in str(reason(state(age=20.1 * HOUR)))
    # Nothing was written since: there is no tombstone to miss.
    assert reason(state(100, age=1000 * HOUR)) is None


def resume(
    committed: int | None, mark: SourceMark | None, log: LogRange = LOG, trust: bool = False, partitions: int = 4
) -> int:
    return resume_offset("t", 0, committed=committed, mark=mark, log=log, partitions=partitions, trust_group=trust)


def mark(offset: int, topic_id: str = "id", partitions: int = 4) -> SourceMark:
    return SourceMark(topic_id, offset, partitions)


def test_given_a_first_start_then_from_the_beginning_of_the_log() -> None:
    assert resume(None, None, LogRange("id", 7, 100, 100)) == 7


def test_given_group_and_changelog_agree_then_from_there() -> None:
    assert resume(40, mark(40)) == 40


def test_given_expired_group_offsets_then_from_the_changelogs_own() -> None:
    assert resume(None, mark(40)) == 40


@pytest.mark.parametrize("committed", [0, 39, 41])
def test_invariant_06_given_group_and_changelog_disagree_then_refused(committed: int) -> None:
    with pytest.raises(Refused, match="move in one"):
        resume(committed, mark(40))
    assert resume(committed, mark(40), trust=True) == committed


def test_invariant_06_given_a_group_offset_and_an_empty_changelog_then_refused() -> None:
    with pytest.raises(Refused, match=r"the changelog says nothing.*Do not delete the group's offsets"):
        resume(40, None)
    assert resume(40, None, trust=True) == 40


def test_given_a_table_whose_changelog_was_recreated_then_refused_also_without_any_local_state() -> None:
    marks = [SourceMark("id", 40, 4, (("items", "i1"), ("progress", "p1")))]
    check_changelogs(3, marks, {"items": "i1", "progress": "p1"})
    with pytest.raises(Refused, match=r"'progress'\[3\]: its changelog was recreated.*p1.*p2"):
        check_changelogs(3, marks, {"items": "i1", "progress": "p2"})
    check_changelogs(3, marks, {"items": "i1", "progress": "p2"}, trust=True)


def test_given_one_mark_that_names_the_changelog_of_now_then_older_ones_of_idle_sources_do_not_refuse_it() -> None:
    idle = SourceMark("a", 40, 4, (("items", "i1"), ("progress", "p1")))
    busy = SourceMark("b", 7, 4, (("items", "i2"), ("progress", "p1")))
    for marks in ([idle, busy], [busy, idle]):
        check_changelogs(3, marks, {"items": "i2", "progress": "p1"})
        with pytest.raises(Refused, match=r"'items'.*i1 and i2.*i3"):
            check_changelogs(3, marks, {"items": "i3", "progress": "p1"})
        with pytest.raises(Refused, match="'progress'"):
            check_changelogs(3, marks, {"items": "i2", "progress": "p2"})


def test_given_tables_that_came_or_went_then_nothing_is_refused() -> None:
    marks = [SourceMark("id", 40, 4, (("items", "i1"),)), SourceMark("id", 3, 4)]
    check_changelogs(3, marks, {"progress": "p1"})
    check_changelogs(3, marks, {"items": "i1", "progress": "p1"})


def test_given_a_mark_of_before_it_named_the_changelogs_then_it_is_read() -> None:
    assert SourceMark.decode(b"id/40/4") == SourceMark("id", 40, 4)
    named = SourceMark("id", 40, 4, (("items", "i1"), ("progress", "p1")))
    assert SourceMark.decode(named.encode()) == named
    assert SourceMark.decode(b"id/40/4/items=i1,progress=p1") == named
    for set_back in (replace(named, epoch=3), SourceMark("id", 40, 4, epoch=1)):
        assert SourceMark.decode(set_back.encode()) == set_back
    with pytest.raises(ValueError, match="unpack"):
        SourceMark.decode(b"id/40/4/items/i1")


@pytest.mark.parametrize("log", [LogRange("id", 41, 100, 100), LogRange("id", 0, 39, 39)])
def test_given_an_offset_outside_the_log_then_refused_and_never_reset(log: LogRange) -> None:
    with pytest.raises(Refused, match="outside the log"):
        resume(40, mark(40), log)
    with pytest.raises(Refused, match="outside the log"):
        resume(40, mark(40), log, trust=True)


def test_given_a_recreated_source_or_another_partition_count_then_refused() -> None:
    with pytest.raises(Refused, match="recreated"):
        resume(40, mark(40, topic_id="old"))
    with pytest.raises(Refused, match="had 4 partitions and has 8"):
        resume(40, mark(40), partitions=8)
