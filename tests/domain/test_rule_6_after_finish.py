"""Rule 6: after a finish, credits and stops change nothing, a rewind reopens, a new beginning needs intent."""

from __future__ import annotations

from typing import Any

import pytest

from tests.domain.given import Story, command, finish, given, pause, progress, resume, seek, start, stop

PHONE: dict[str, Any] = {"run": "phone"}


def finished(seq: int | None = None) -> Story:
    return given(progress(6000, at=-600, seq=seq), finish(7200, seq=None if seq is None else seq + 1))


@pytest.mark.parametrize("seq", [None, 5])
def test_what_the_same_run_says_then_is_ignored(seq: int | None) -> None:
    story = finished(None if seq is None else 1)
    story = story.when(progress(7195, at=5, seq=seq)).then("ignored", "after_finish", play_count=1, phase="finished")
    story = story.when(pause(at=6, seq=seq and seq + 1)).then("ignored", "after_finish", phase="finished")
    story.when(stop(7200, at=7, seq=seq and seq + 2)).then("ignored", "after_finish", position_ms=7_200_000)


def test_what_is_not_newer_than_the_finish_is_late() -> None:
    finished(1).when(progress(3000, at=-300, seq=1), progress(3000, at=60, seq=0)).then("late", phase="finished")
    finished().when(progress(3000, at=-1)).then("late", phase="finished")


def test_finish_without_position_sets_both_orders() -> None:
    story = given(progress(6000, seq=1), finish(at=60, seq=3)).when(progress(6100, at=30, seq=2))
    story.then("late", phase="finished", position_ms=7_200_000)


@pytest.mark.parametrize(("position", "verdict"), [(7169.999, "accepted"), (7170, "ignored")])
def test_same_run_with_sequences_reopens_when_behind_by_more_than_30_s(position: float, verdict: str) -> None:
    finished(1).when(progress(position, at=10, seq=9)).then(verdict)


@pytest.mark.parametrize("kind", [progress, pause, seek, resume, stop])
def test_any_report_of_a_run_with_sequences_reopens_the_same_epoch(kind: object) -> None:
    story = finished(1).when(kind(3000, at=60, seq=9))  # type: ignore[operator]
    story.then("accepted", position_ms=3_000_000, epoch=1, play_count=1, played=True, resume_position_ms=3_000_000)
    assert story.shown["phase"] in ("playing", "paused", "stopped")
    story.when(finish(7200, at=4000, seq=10)).then("accepted", play_count=1, phase="finished")


def test_same_run_without_sequences_reopens_by_a_seek() -> None:
    finished().when(seek(3000, at=60)).then("accepted", position_ms=3_000_000, epoch=1, phase="playing", play_count=1)


def test_same_run_without_sequences_reopens_by_playing_only_with_proof() -> None:
    story = finished().when(progress(3000, at=60)).then("pending", phase="finished", position_ms=7_200_000)
    story = story.when(progress(3010, at=70)).then("pending")
    story.when(progress(3030, at=90)).then("accepted", position_ms=3_030_000, epoch=1, phase="playing", play_count=1)


def test_same_run_near_the_start_needs_intent() -> None:
    finished(1).when(progress(10, at=60, seq=9)).then("pending", phase="finished")
    story = finished(1).when(seek(0, at=60, seq=9)).then("accepted", epoch=2, position_ms=0, play_count=1, played=True)
    story.when(finish(7200, at=8000, seq=10)).then("accepted", play_count=2)


def test_empty_start_counts_as_near_the_start() -> None:
    for position in (None, 0):
        finished().when(start(position, at=60)).then("pending", phase="finished", epoch=1)
        finished().when(start(position, at=60, **PHONE)).then("pending", phase="finished", epoch=1)


def test_another_run_older_than_the_finish_is_late() -> None:
    finished().when(progress(3000, at=-10.001, **PHONE)).then("late", phase="finished", conflict=None)
    finished().when(progress(3000, at=-10, **PHONE)).then("pending", phase="finished")


def test_another_run_behind_needs_intent() -> None:
    finished().when(progress(7169.999, at=60, **PHONE)).then("pending", phase="finished")
    finished().when(progress(7170, at=60, **PHONE)).then("ignored", "after_finish")


def test_finish_of_another_run_is_ignored_and_counts_nothing() -> None:
    finished().when(finish(at=60, **PHONE)).then("ignored", "after_finish", play_count=1)
    finished().when(finish(7200, at=90_000, **PHONE)).then("ignored", "after_finish", play_count=1)


def test_reports_of_a_pending_run_stay_with_rule_7() -> None:
    story = finished().when(start(0, at=60, **PHONE)).then("pending")
    story.when(pause(at=70, **PHONE)).then("pending", phase="finished")
    story.when(stop(at=70, **PHONE)).then("ignored", "no_intent", pending=None)


def test_extrapolated_and_failed_reports_reopen_nothing() -> None:
    for run in ("tv", "phone"):
        finished().when(progress(3000, at=60, run=run, automated=True)).then("ignored", "automated_behind")
        finished().when(stop(3000, at=60, run=run, failed=True)).then("ignored", "after_finish")


def test_rewind_beyond_finish_at_stays_finished() -> None:
    story = finished(1).when(seek(6600, at=60, seq=9)).then("accepted", position_ms=6_600_000, phase="finished")
    story.when(seek(3000, at=70, seq=10)).then("accepted", phase="playing", epoch=1)


def test_reports_between_finish_and_credits_are_judged_as_in_order() -> None:
    story = finished(1).when(progress(7190, at=90, seq=9)).then("ignored", "after_finish")
    story.when(progress(3000, at=60, seq=5)).then("late", phase="finished")
    story = finished(1).when(pause(at=90, seq=9)).then("ignored", "after_finish")
    story.when(progress(3000, at=60, seq=5)).then("accepted", position_ms=3_000_000, phase="paused", epoch=1)


def test_finish_by_command_is_left_by_the_same_run_going_back() -> None:
    story = given(progress(3000, seq=1), command("mark_played", at=60))
    story.when(progress(2000, at=90, seq=2)).then("accepted", position_ms=2_000_000, epoch=1, phase="playing")
    story.when(progress(2990, at=90, seq=2)).then("ignored", "after_finish")


def test_finish_further_back_that_arrives_later_is_the_one_to_be_behind_of() -> None:
    story = given(progress(6570, seq=9, at=90)).then("accepted", phase="finished")
    story = story.when(progress(6485, seq=2, at=20)).then("late", phase="finished")
    story.when(progress(6460, seq=10, at=100)).then("ignored", "after_finish", phase="finished")
    story.when(progress(6400, seq=10, at=100)).then("accepted", phase="playing")


def test_beginning_again_by_a_clock_older_than_the_finish_is_late() -> None:
    finished(1).when(progress(10, at=-10.001, seq=9)).then("late", "older_than_state", phase="finished")


def test_finish_of_an_older_epoch_is_not_what_the_run_is_behind_of() -> None:
    story = given(finish(7200, seq=1), command("mark_unplayed", at=60), progress(3000, at=120, seq=2))
    story = story.when(command("mark_played", at=180)).then("accepted", phase="finished", position_ms=3_000_000)
    story.when(progress(2980, at=200, seq=3)).then("ignored", "after_finish", position_ms=3_000_000)
