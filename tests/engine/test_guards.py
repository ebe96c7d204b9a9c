"""The guard against hanging transactions, the watchdog and replay bookkeeping."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from streams.engine import Crash, Hung, Refused
from streams.engine.batch import BatchState
from streams.engine.changelog import SourceMark, newest_marks, source_key
from streams.engine.errors import Closed
from streams.engine.hanging import offsets_partition, wait_decided
from streams.engine.restore import Replay, split_records
from streams.engine.resume import LogRange
from streams.engine.watchdog import Watchdog

from .fakes import FakeProducer, config, make_batch, record, restored_unit

KEY = ("out", 0)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


def wait(ranges: list[tuple[int, int]], patience: float = 2.0, given_up: bool = False) -> Clock:
    """``ranges``: (stable, end) per look; the last repeats."""
    clock, looks = Clock(), iter(ranges)
    last = ranges[0]

    def look(_: Iterable[tuple[str, int]]) -> dict[tuple[str, int], LogRange]:
        nonlocal last
        last = next(looks, last)
        return {KEY: LogRange("id", 0, last[1], last[0])}

    wait_decided([KEY], look, patience, lambda: given_up, "repair-it", clock.pause, clock)
    return clock


def test_given_everything_decided_then_no_wait() -> None:
    assert wait([(10, 10)]).now == 0


def test_given_a_stable_offset_that_stands_still_then_refused_with_what_to_do() -> None:
    with pytest.raises(Refused, match=r"out\[0\] is undecided from 7 \(end 10\).*run `repair-it`"):
        wait([(7, 10)])


def test_given_other_producers_at_work_then_a_moving_stable_offset_is_waited_for() -> None:
    assert wait([(n, n + 3) for n in range(20)], patience=0.05).now == pytest.approx(0.07)


def test_given_units_given_away_then_the_wait_ends() -> None:
    with pytest.raises(Closed):
        wait([(7, 10)], patience=1000, given_up=True)


@pytest.mark.parametrize(
    ("group", "partition"),
    # As Java computes Utils.abs(name.hashCode()) % 12; the third hash is negative, the last has no absolute value.
    [("g", 7), ("playback", 3), ("hanging-5805801a0c8c", 5), ("ドラマ📺", 1), ("polygenelubricants", 0)],
)
def test_given_a_group_then_its_offsets_lie_where_brokers_put_them(group: str, partition: int) -> None:
    assert offsets_partition(group, 12) == partition


def test_invariant_07_given_a_marker_at_the_end_then_only_end_of_partition_completes_the_replay() -> None:
    # Records 0 to 8, the commit marker at 9: the log ends at 10.
    replay = Replay(unit=None, topic="log", position=0, end=10)  # type: ignore[arg-type]
    replay.position = 9  # after the last record that can be seen
    assert not replay.done
    replay.position = 10  # what the end-of-partition event says
    assert replay.done


def test_given_changelog_records_then_rows_and_source_marks_are_told_apart() -> None:
    mark = SourceMark("id", 5, 4)
    records = [record(0, b"k", b"1"), record(1, source_key("t"), mark.encode()), record(2, b"k", None)]
    rows, marks = split_records(b"table\0", records)
    assert list(rows) == [(b"table\0k", b"1"), (b"table\0k", None)]
    assert marks == {"t": mark}
    with pytest.raises(Crash, match="without a key"):
        split_records(b"table\0", [record(0, None)])


def test_given_marks_of_several_changelogs_then_the_newest_counts() -> None:
    old, new = SourceMark("id", 5, 4), SourceMark("id", 9, 4)
    assert newest_marks({"t": new}, {"t": old}) == {"t": new}
    assert newest_marks({"t": old}, {"t": new, "u": old}) == {"t": new, "u": old}
    set_back = SourceMark("id", 5, 4, epoch=1)
    assert newest_marks({"t": new}, {"t": set_back}) == newest_marks({"t": set_back}, {"t": new}) == {"t": set_back}


def watchdog(folder: Path, **given: Any) -> Watchdog:
    defaults: dict[str, Any] = {"commits": dict, "poll_beat": lambda: None, "units": list}
    return Watchdog(config(folder), fail=lambda _: None, hard_exit=lambda: None, **(defaults | given))


def test_pitfall_03_given_a_commit_beyond_its_timeout_then_restart_me(tmp_path: Path) -> None:
    settings = config(tmp_path)
    unit = restored_unit(settings, FakeProducer())
    batch = unit.inflight = make_batch(settings, [record(0)])
    dog = watchdog(tmp_path, commits=lambda: {batch: 0.0}, units=lambda: [unit])
    found = dog.find(31.0)
    assert isinstance(found, Hung)
    assert "30 s: init_transactions" in str(found), "the call that was made last"
    assert dog.find(29.0) is None
    unit.close(0)


def test_given_a_commit_that_waits_for_what_may_hang_then_it_is_refused_before_the_watchdog_calls_it_hung(
    tmp_path: Path,
) -> None:
    settings = config(tmp_path)
    unit = restored_unit(settings, FakeProducer())
    batch = unit.inflight = make_batch(settings, [record(0)])
    batch.state = BatchState.FINISHED
    unit.waiting_since = 28.0
    dog = watchdog(tmp_path, commits=lambda: {batch: 0.0}, units=lambda: [unit])
    assert dog.find(28.0 + settings.hanging_timeout + 2 * settings.operation_timeout - 1) is None
    found = dog.find(28.0 + settings.hanging_timeout + 2 * settings.operation_timeout + 1)
    assert isinstance(found, Hung)
    assert "120 s: waiting until all of the transaction is decided" in str(found)
    unit.close(0)


def test_given_a_commit_of_a_unit_that_was_given_away_then_the_worker_goes_on(tmp_path: Path) -> None:
    batch = make_batch(config(tmp_path), [record(0)])
    assert watchdog(tmp_path, commits=lambda: {batch: 0.0}).find(31.0) is None


def test_pitfall_03_given_a_poll_thread_that_stands_still_then_restart_me(tmp_path: Path) -> None:
    assert isinstance(watchdog(tmp_path, poll_beat=lambda: 0.0).find(1000.0), Hung)
    assert watchdog(tmp_path, poll_beat=lambda: 0.0).find(100.0) is None


def test_pitfall_12_given_a_batch_that_an_agent_never_finishes_then_crash(tmp_path: Path) -> None:
    settings = config(tmp_path)
    unit = restored_unit(settings, FakeProducer())
    unit.inflight = make_batch(settings, [record(0)])
    unit.inflight.since = 0.0
    unit.inflight.state = BatchState.STARTED
    dog = watchdog(tmp_path, units=lambda: [unit])
    assert isinstance(dog.find(61.0), Crash)
    unit.inflight.state = BatchState.FINISHED
    assert dog.find(61.0) is None
    unit.close(0)


def test_given_a_worker_that_does_not_end_in_time_then_it_is_ended(tmp_path: Path) -> None:
    exits: list[float] = []
    dog = Watchdog(
        config(tmp_path), commits=dict, poll_beat=lambda: time.monotonic() - 1000, units=list,
        fail=lambda _: None, hard_exit=lambda: exits.append(0), grace=0.0,
    )  # fmt: skip
    dog.start()
    deadline = time.monotonic() + 20
    while not exits and time.monotonic() < deadline:
        time.sleep(0.05)
    dog.stop()
    assert exits
