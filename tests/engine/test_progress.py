"""What is said while a restore runs."""

from __future__ import annotations

import logging

import pytest

from streams.engine.progress import EVERY, RestoreProgress


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_given_a_long_restore_then_share_rate_and_time_left_are_said_at_most_every_two_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock, heard = Clock(), list[tuple[int, int]]()
    progress = RestoreProgress([0, 3], 1_000_000, lambda *state: heard.append(state), clock)
    for _ in range(8):
        clock.now += EVERY / 4
        progress.advance(50_000)
    assert caplog.messages == [
        "restoring partitions 0, 3: 20 %, 200,000 of 1,000,000 records, 100,000/s, about 8 s left",
        "restoring partitions 0, 3: 40 %, 400,000 of 1,000,000 records, 100,000/s, about 6 s left",
    ]
    progress.end()
    assert heard == [(0, 1_000_000), (200_000, 1_000_000), (400_000, 1_000_000), (1_000_000, 1_000_000)]


def test_given_a_short_restore_then_nothing_is_logged_and_the_metric_ends_full(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    heard = list[tuple[int, int]]()
    progress = RestoreProgress([1], 10, lambda *state: heard.append(state), Clock())
    progress.advance(10)
    progress.end()
    assert caplog.messages == []
    assert heard == [(0, 10), (10, 10)]


def test_given_a_unit_given_away_or_nothing_to_do_then_the_total_shrinks_and_no_division_fails() -> None:
    clock, heard = Clock(), list[tuple[int, int]]()
    progress = RestoreProgress([0, 1], 100, lambda *state: heard.append(state), clock)
    progress.less(60)
    clock.now += EVERY
    progress.advance(40)
    assert heard[-1] == (40, 40)
    nothing = RestoreProgress([], 0, lambda *state: heard.append(state), clock)
    assert "100 %" in nothing.line(clock.now)
    assert "not begun" in nothing.line(clock.now)
