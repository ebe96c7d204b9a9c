"""Rule 5: another run must be newer to take over, and further or near to do so at once."""

from __future__ import annotations

from typing import Any

import pytest

from streams.domain.policy import FURTHEST
from tests.domain.given import (
    Story,
    command,
    finish,
    given,
    pause,
    progress,
    report,
    resume,
    seek,
    start,
    stop,
)

PHONE: dict[str, Any] = {"run": "phone"}


def tv_at(position: float, at: float = 0) -> Story:
    return given(progress(position, at=at))


def test_no_state_yet_is_accepted_whatever_it_is() -> None:
    for one in (start(), start(0), pause(600), seek(600), resume(), finish(), progress(600, automated=True)):
        given(one).then("accepted", session_id="tv")


def test_nothing_to_protect_near_the_start() -> None:
    tv_at(60).when(progress(10, at=11, **PHONE)).then("accepted", position_ms=10_000, session_id="phone")
    tv_at(60).when(progress(10, at=10, **PHONE)).then("late", note="tie", position_ms=60_000)
    tv_at(61).when(progress(10, at=11, **PHONE)).then("pending", position_ms=61_000)


def test_older_is_late() -> None:
    tv_at(600).when(progress(650, at=-10.001, **PHONE)).then("late", position_ms=600_000, conflict=None)


@pytest.mark.parametrize(("position", "kept"), [(660, False), (660.001, True)])
def test_older_and_further_by_more_than_a_minute_becomes_the_conflict(position: float, kept: bool) -> None:
    story = tv_at(600).when(progress(position, at=-60, **PHONE)).then("late", position_ms=600_000)
    conflict = story.shown["conflict"]
    assert (conflict is not None) is kept
    if kept:
        assert conflict == {
            "device_id": "phone-device",
            "session_id": "phone",
            "position_ms": 660_001,
            "event_time": story.last.event_time,
        }


def test_conflict_follows_its_run_and_otherwise_keeps_the_furthest() -> None:
    story = tv_at(600).when(progress(3000, at=-60, **PHONE), progress(2000, at=-50, **PHONE))
    assert story.shown["conflict"]["position_ms"] == 2_000_000
    story = story.when(progress(1500, at=-40, run="web"))
    assert story.shown["conflict"]["position_ms"] == 2_000_000
    story = story.when(progress(2500, at=-40, run="web"))
    assert story.shown["conflict"]["session_id"] == "web"


def test_extrapolated_report_never_becomes_the_conflict() -> None:
    tv_at(600).when(progress(3000, at=-60, automated=True, **PHONE)).then("late", conflict=None)


def test_policy_furthest_takes_what_went_further() -> None:
    story = given(progress(600), policy=FURTHEST).when(progress(3000, at=-60, **PHONE))
    story.then("accepted", position_ms=3_000_000, session_id="phone", conflict=None)
    story.when(progress(3030, at=-50, run="web")).then("late", position_ms=3_000_000)


@pytest.mark.parametrize("at", [-10, 10])
def test_within_10_s_the_larger_position_wins(at: float) -> None:
    tv_at(600).when(progress(700, at=at, **PHONE)).then("accepted", position_ms=700_000, session_id="phone")
    tv_at(600).when(progress(599, at=at, **PHONE)).then("late", "tie_smaller", note="tie", position_ms=600_000)


def test_within_10_s_a_seek_shows_intent() -> None:
    tv_at(600).when(seek(300, at=-10, **PHONE)).then("accepted", position_ms=300_000, session_id="phone", epoch=1)


def test_newer_and_ahead_takes_over() -> None:
    tv_at(600).when(progress(650, at=60, **PHONE)).then("accepted", position_ms=650_000, session_id="phone")


@pytest.mark.parametrize(("position", "verdict"), [(570, "accepted"), (569.999, "pending")])
def test_newer_and_at_most_30_s_behind_takes_over(position: float, verdict: str) -> None:
    tv_at(600).when(progress(position, at=60, **PHONE)).then(verdict, position_ms=600_000)


def test_after_a_takeover_the_larger_position_stays_until_it_is_passed() -> None:
    story = tv_at(600).when(progress(575, at=60, **PHONE)).then("accepted", position_ms=600_000, session_id="phone")
    story = story.when(progress(585, at=70, **PHONE)).then("accepted", position_ms=600_000)
    story.when(progress(605, at=90, **PHONE)).then("accepted", position_ms=605_000)
    story.when(seek(590, at=75, **PHONE)).then("accepted", position_ms=590_000)
    story.when(progress(580, at=80, **PHONE)).then("accepted", position_ms=580_000)


def test_takeover_that_waits_raises_event_time_as_it_plays() -> None:
    story = tv_at(600).when(progress(575, at=60, **PHONE), progress(585, at=70, **PHONE))
    assert story.state is not None
    assert story.state.event_time == story.last.event_time


@pytest.mark.parametrize("position", [None, 0])
def test_start_that_names_no_place_needs_intent(position: float | None) -> None:
    tv_at(600).when(start(position, at=60, **PHONE)).then("pending", position_ms=600_000, session_id="tv")


def test_start_at_the_resume_point_takes_over() -> None:
    tv_at(600).when(start(600, at=60, **PHONE)).then("accepted", session_id="phone", position_ms=600_000)


def test_empty_stop_of_a_run_without_progress_is_ignored_at_any_time() -> None:
    for at in (-60, 0, 60):
        tv_at(600).when(stop(0, at=at, **PHONE)).then("ignored", "empty_stop", phase="playing", session_id="tv")
    given(stop()).then("ignored", "empty_stop")


def test_empty_stop_of_a_run_that_progressed_moves_nothing() -> None:
    story = given(progress(500, **PHONE), progress(600, at=60)).then("accepted", session_id="tv")
    story.when(stop(at=120, **PHONE)).then("accepted", phase="playing", position_ms=600_000, session_id="tv")
    story.when(stop(at=30, **PHONE)).then("late", phase="playing", session_id="tv")


@pytest.mark.parametrize("one", [start(3000, at=60, failed=True, **PHONE), stop(3000, at=60, failed=True, **PHONE)])
def test_failed_report_moves_nothing(one: object) -> None:
    story = given(progress(500, **PHONE), progress(600, at=30)).when(one)  # type: ignore[arg-type]
    story.then("accepted", phase="playing", position_ms=600_000, session_id="tv")


def test_extrapolated_report_moves_nothing() -> None:
    tv_at(600).when(progress(700, at=60, automated=True, **PHONE)).then(
        "accepted", position_ms=600_000, session_id="tv"
    )
    tv_at(600).when(progress(500, at=60, automated=True, **PHONE)).then("ignored", "automated_behind")


def test_heartbeat_of_a_paused_player_takes_nothing_over() -> None:
    story = given(progress(600), pause(610, at=10), progress(620, at=60, **PHONE)).then("accepted", session_id="phone")
    story.when(pause(610, at=90)).then("ignored", "unchanged", session_id="phone", phase="playing")
    story.when(progress(610, at=90)).then("ignored", "unchanged", session_id="phone")
    story.when(progress(615, at=90)).then("accepted", session_id="tv", position_ms=620_000)


def test_pause_of_another_run_that_names_no_place_moves_nothing() -> None:
    tv_at(600).when(resume(at=60, **PHONE)).then("accepted", session_id="tv", position_ms=600_000)


def test_resume_of_another_run_stands_at_its_own_last_position() -> None:
    story = given(progress(600), progress(640, at=60, **PHONE)).then("accepted", session_id="phone")
    story.when(resume(at=120)).then("pending", position_ms=640_000)
    story = given(progress(600), progress(620, at=60, **PHONE)).when(resume(at=120))
    story.then("accepted", session_id="tv", position_ms=620_000)


def test_finish_of_another_run_finishes_and_counts() -> None:
    tv_at(600).when(finish(at=60, **PHONE)).then("accepted", phase="finished", play_count=1, position_ms=7_200_000)


def test_late_finish_of_another_run_counts_and_leaves_the_phase() -> None:
    tv_at(600).when(finish(7200, at=-60, **PHONE)).then("late", phase="playing", play_count=1, played=True)


def test_late_report_leaves_duration_and_kind() -> None:
    late = report("progress", 650, at=-60, duration=9000, media_kind="live", **PHONE)
    story = tv_at(600).when(late).then("late", duration_ms=7_200_000)
    assert story.state is not None
    assert story.state.media_kind == "video"


def test_after_set_position_a_newer_run_ahead_takes_over() -> None:
    given(progress(600), command("set_position", 900, at=60)).when(progress(960, at=120)).then(
        "accepted", position_ms=960_000, session_id="tv"
    )
