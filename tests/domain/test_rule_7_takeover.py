"""Rule 7: to go back, another run shows intent: it seeks, or really plays 30 s."""

from __future__ import annotations

from typing import Any

import pytest

from tests.domain.given import Story, command, finish, given, pause, progress, resume, seek, start, stop

PHONE: dict[str, Any] = {"run": "phone"}


def candidate(position: float = 600, stored: float = 2400) -> Story:
    """The film stands at `stored`; an hour later the phone begins behind it."""
    return given(progress(stored), progress(position, at=3600, **PHONE)).then("pending")


def test_pending_remembers_the_run_and_moves_nothing() -> None:
    story = (
        candidate()
        .when(progress(610, at=3610, **PHONE))
        .then("pending", position_ms=2_400_000, session_id="tv", phase="playing", epoch=1)
    )
    assert story.shown["pending"] == {
        "session_id": "phone",
        "device_id": "phone-device",
        "from_position_ms": 600_000,
        "position_ms": 610_000,
        "event_time": story.last.event_time,
    }
    assert story.shown["event_time"] < story.last.event_time


@pytest.mark.parametrize(("position", "verdict"), [(629.999, "pending"), (630, "accepted")])
def test_30_s_of_playing_confirm(position: float, verdict: str) -> None:
    story = candidate().when(progress(620, at=3620, **PHONE), progress(position, at=3630, **PHONE)).then(verdict)
    if verdict == "accepted":
        story.then("accepted", position_ms=630_000, session_id="phone", epoch=1, pending=None)


@pytest.mark.parametrize(("seconds", "verdict"), [(7.5, "accepted"), (7.499, "pending"), (0, "accepted")])
def test_playing_is_at_most_4_times_event_time_where_they_differ(seconds: float, verdict: str) -> None:
    candidate().when(progress(630, at=3600 + seconds, event_id="x", **PHONE)).then(verdict)


def test_a_jump_is_no_playing_and_playing_begins_after_it() -> None:
    story = candidate(10).when(progress(1000, at=3605, **PHONE)).then("pending")
    story = story.when(progress(1020, at=3625, **PHONE)).then("pending")
    story.when(progress(1030, at=3635, **PHONE)).then("accepted", epoch=1, position_ms=1_030_000)


def test_going_back_begins_the_proof_anew() -> None:
    story = candidate().when(progress(620, at=3620, **PHONE), progress(590, at=3625, **PHONE)).then("pending")
    story = story.when(progress(619, at=3654, **PHONE)).then("pending")
    story.when(progress(620, at=3655, **PHONE)).then("accepted", position_ms=620_000)


@pytest.mark.parametrize("kind", [stop, pause])
def test_stop_or_pause_may_complete_the_proof(kind: object) -> None:
    story = candidate().when(progress(620, at=3620, **PHONE), kind(630, at=3630, **PHONE))  # type: ignore[operator]
    story.then("accepted", position_ms=630_000, session_id="phone")
    assert story.shown["phase"] in ("paused", "stopped")


def test_stop_before_proof_drops_the_candidate() -> None:
    candidate().when(stop(629, at=3629, **PHONE)).then(
        "ignored", "no_intent", pending=None, position_ms=2_400_000, session_id="tv"
    )


def test_stop_alone_never_becomes_a_candidate_and_leaves_that_of_another() -> None:
    given(progress(2400), stop(600, at=3600, **PHONE)).then("ignored", "no_intent", pending=None)
    story = candidate().when(stop(700, at=3610, run="web")).then("ignored", "no_intent")
    assert story.shown["pending"]["session_id"] == "phone"


def test_seek_confirms_at_once() -> None:
    given(progress(2400), seek(600, at=3600, **PHONE)).then("accepted", position_ms=600_000, epoch=1)
    candidate().when(seek(900, at=3610, **PHONE)).then("accepted", position_ms=900_000, epoch=1, session_id="phone")


@pytest.mark.parametrize(("target", "epoch"), [(60, 2), (60.001, 1)])
def test_seek_near_the_start_opens_an_epoch(target: float, epoch: int) -> None:
    candidate().when(seek(target, at=3610, **PHONE)).then("accepted", epoch=epoch)


@pytest.mark.parametrize(("begin", "epoch"), [(60, 2), (60.001, 1)])
def test_playing_that_began_near_the_start_opens_an_epoch(begin: float, epoch: int) -> None:
    candidate(begin).when(progress(begin + 31, at=3640, **PHONE)).then("accepted", epoch=epoch)


def test_new_epoch_starts_with_its_first_pending_report() -> None:
    story = candidate(10).when(progress(20, at=3610, **PHONE), progress(40, at=3630, **PHONE)).then("accepted")
    assert story.state is not None
    assert story.state.epoch_started_at == story.decisions[1].event_time


def test_finished_by_another_run_opens_an_epoch_wherever_it_goes_on() -> None:
    story = given(finish(7200), progress(3000, at=3600, **PHONE)).then("pending")
    story = story.when(progress(3030, at=3630, **PHONE)).then("accepted", epoch=2, play_count=1, played=True)
    story.when(finish(7200, at=8000, **PHONE)).then("accepted", play_count=2)


def test_player_that_loads_is_accepted_without_proof() -> None:
    story = candidate(2).when(progress(2370, at=3605, **PHONE))
    story.then("accepted", position_ms=2_400_000, session_id="phone", epoch=1, pending=None)
    candidate(2).when(seek(2500, at=3605, **PHONE)).then("accepted", position_ms=2_500_000, epoch=1)


def test_player_that_loads_after_a_finish_is_ignored() -> None:
    story = given(finish(7200), start(0, at=3600, **PHONE)).when(progress(7200, at=3605, **PHONE))
    story.then("ignored", "after_finish", pending=None, epoch=1, play_count=1)


def test_short_track_can_be_heard_again() -> None:
    song: dict[str, Any] = {"duration": 55, "media_kind": "music"}
    story = given(finish(55, **song), start(0, at=600, **PHONE, **song), progress(28, at=628, **PHONE, **song))
    story = story.then("pending").when(progress(31, at=631, **PHONE, **song)).then("accepted", epoch=2)
    story.when(finish(55, at=655, **PHONE, **song)).then("accepted", play_count=2)


def test_candidate_of_yet_another_run_replaces_it() -> None:
    story = candidate().when(progress(700, at=3610, run="web")).then("pending")
    assert story.shown["pending"]["session_id"] == "web"


def test_reports_of_the_current_run_leave_the_candidate_in_place() -> None:
    story = candidate().when(progress(2410, at=3605)).then("accepted", position_ms=2_410_000)
    assert story.shown["pending"]["session_id"] == "phone"


def test_report_older_than_the_state_is_late_even_of_a_candidate() -> None:
    story = candidate().when(progress(2500, at=3700), progress(620, at=3620, **PHONE))
    story.then("late", position_ms=2_500_000)


def test_report_older_than_the_candidates_newest_changes_nothing() -> None:
    story = candidate().when(progress(620, at=3620, **PHONE))
    assert story.when(progress(605, at=3605, **PHONE)).then("pending").shown["pending"] == story.shown["pending"]


def test_resume_without_position_keeps_the_candidates_place() -> None:
    story = candidate().when(resume(at=3610, **PHONE)).then("pending")
    assert story.shown["pending"]["position_ms"] == 600_000


def test_empty_stop_of_a_candidate_drops_it() -> None:
    candidate().when(stop(at=3610, **PHONE)).then("ignored", "no_intent", pending=None)
    story = given(progress(2400), start(0, at=3600, **PHONE)).when(stop(0, at=3610, **PHONE))
    story.then("ignored", "empty_stop", pending=None)


def test_extrapolation_proves_nothing() -> None:
    story = candidate().when(progress(640, at=3640, automated=True, **PHONE)).then("ignored", "automated_behind")
    assert story.shown["pending"]["position_ms"] == 600_000


def test_finish_after_really_playing_from_the_start_is_a_second_play() -> None:
    song: dict[str, Any] = {"duration": 240, "media_kind": "music"}
    story = given(finish(**song), start(at=86_400, run="phone", **song)).then("pending")
    story.when(finish(at=86_640, run="phone", **song)).then("accepted", epoch=2, play_count=2, phase="finished")


def test_confirmed_run_is_held_to_its_own_order_from_then_on() -> None:
    story = given(progress(2400), *(progress(600 + s, at=3600 + s, seq=s, run="phone") for s in (1, 11, 31)))
    story.then("accepted", position_ms=631_000).when(progress(620, at=3620, seq=20, run="phone")).then("late")


def test_command_after_a_finish_is_finished_by_another_run() -> None:
    story = given(progress(2400), command("mark_played", at=60), progress(600, at=3600, run="phone")).then("pending")
    story.when(progress(630, at=3630, run="phone")).then("accepted", epoch=2)


def test_stop_without_proof_counts_no_play_even_when_its_claim_is_believed() -> None:
    given(progress(6400), stop(5000, at=60, played=True, **PHONE)).then(
        "ignored", "no_intent", played=False, play_count=0
    )
