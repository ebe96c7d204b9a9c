"""Sessions and runs: what a report is a part of."""

from __future__ import annotations

from typing import Any

import pytest

from streams.domain.identity import session_key
from streams.domain.sessions import find
from tests.domain.given import Story, finish, given, pause, progress, resume, seek, start, stop

HALF_HOUR = 1800
WEBHOOK: dict[str, Any] = {"run": None, "device": "tv"}


def run_of(story: Story, run: str | None = "tv", device: str | None = None) -> int:
    assert story.state is not None
    session = find(story.state.sessions, session_key("home", run, device))
    assert session is not None
    return session.run


def test_session_is_the_session_id_else_the_device_else_the_source() -> None:
    keys = {
        session_key("home", "s", "d"),
        session_key("home", "s", None),
        session_key("home", None, "s"),
        session_key("home", None, None),
        session_key("away", "s", None),
    }
    assert len(keys) == 4


@pytest.mark.parametrize("end", [stop(600, at=10), finish(7200, at=10)], ids=["stop", "finish"])
def test_start_newer_than_a_stop_or_finish_opens_a_run(end: object) -> None:
    story = given(progress(590), end)  # type: ignore[arg-type]
    assert run_of(story) == 1
    assert run_of(story.when(start(600, at=20))) == 2
    assert run_of(story.when(start(600, at=5))) == 1


def test_start_is_newer_by_sequence_when_both_have_one() -> None:
    story = given(progress(590, seq=1), stop(600, at=10, seq=5))
    assert run_of(story.when(start(600, at=20, seq=4))) == 1
    assert run_of(story.when(start(600, at=5, seq=6))) == 2


def test_start_without_an_end_before_it_goes_on() -> None:
    assert run_of(given(progress(590)).when(start(600, at=60))) == 1


def test_start_older_than_what_the_run_said_since_opens_none() -> None:
    story = given(stop(600, at=10, seq=5), progress(700, at=60, seq=7)).when(start(600, at=20, seq=6))
    assert run_of(story) == 1


@pytest.mark.parametrize("kind", [start, progress, resume])
def test_long_silence_opens_a_run_with_a_report_that_plays(kind: object) -> None:
    story = given(progress(600))
    assert run_of(story.when(kind(600, at=HALF_HOUR))) == 1  # type: ignore[operator]
    assert run_of(story.when(kind(600, at=HALF_HOUR + 0.001))) == 2  # type: ignore[operator]


@pytest.mark.parametrize("kind", [pause, seek, stop, finish])
def test_pause_seek_stop_and_finish_belong_to_the_run_they_continue(kind: object) -> None:
    assert run_of(given(progress(600)).when(kind(600, at=90_000))) == 1  # type: ignore[operator]


def test_reports_missing_by_sequence_fill_half_an_hour_each() -> None:
    story = given(progress(600, seq=1))
    assert run_of(story.when(progress(600, at=3 * HALF_HOUR, seq=4))) == 1
    assert run_of(story.when(progress(600, at=3 * HALF_HOUR + 1, seq=4))) == 2
    assert run_of(story.when(progress(600, at=HALF_HOUR + 1, seq=2))) == 2


def test_new_run_counts_as_another_run() -> None:
    story = given(progress(2400, **WEBHOOK), stop(2400, at=10, **WEBHOOK)).when(start(0, at=60, **WEBHOOK))
    story = story.then("pending", position_ms=2_400_000)
    story = story.when(progress(2400, at=65, **WEBHOOK)).then("accepted", position_ms=2_400_000, epoch=1)
    assert run_of(story, None, "tv") == 2


def test_next_morning_the_same_device_does_not_rewind_by_accident() -> None:
    given(progress(2400, **WEBHOOK)).when(progress(5, at=30_000, **WEBHOOK)).then("pending", position_ms=2_400_000)


def test_report_of_an_earlier_run_is_late() -> None:
    story = given(progress(2000, seq=1), stop(2400, at=10, seq=3), start(2400, at=60, seq=4))
    story = story.when(progress(2450, at=110, seq=5)).then("accepted", position_ms=2_450_000)
    story.when(progress(2200, at=5, seq=2)).then("late", position_ms=2_450_000, phase="playing")
    story.when(finish(7200, at=9, seq=2)).then("late", phase="playing", play_count=1)


def test_listening_goes_on_over_the_runs_of_a_session() -> None:
    story = given(progress(600, listened_ms=5000), stop(610, at=10), start(610, at=20, listened_ms=6000))
    story.then("accepted", listened_ms=6000)


def test_last_report_of_the_run_includes_ignored_ones() -> None:
    story = given(finish(7200), *(progress(7200, at=i * 1500) for i in range(1, 4)))
    assert run_of(story) == 1


def test_late_finish_of_an_earlier_run_does_not_end_what_plays_now() -> None:
    story = given(progress(2000, seq=1), stop(2400, at=10, seq=3), start(2400, at=60, seq=4))
    story.when(finish(2420, at=55, seq=2)).then("late", "out_of_order", phase="playing", play_count=1)
