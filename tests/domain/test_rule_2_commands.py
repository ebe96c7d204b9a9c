"""Rule 2: commands of a person."""

from __future__ import annotations

import pytest

from tests.domain.given import command, finish, given, pause, progress, seek, start, stop


@pytest.mark.parametrize("kind", ["mark_played", "mark_unplayed", "clear_position", "set_position"])
def test_command_older_than_the_last_command_is_late(kind: str) -> None:
    story = given(progress(600), command("set_position", 900, at=100)).when(command(kind, 300, at=99))
    story.then("late", "older_command", position_ms=900_000, played=False)


def test_mark_played_counts_once_finishes_and_keeps_the_position() -> None:
    story = given(progress(600), command("mark_played", at=60))
    story.then("accepted", phase="finished", played=True, play_count=1, position_ms=600_000, resume_position_ms=None)
    story.when(command("mark_played", at=70)).then("accepted", play_count=1)


def test_mark_played_for_what_never_played_counts() -> None:
    given(command("mark_played")).then("accepted", phase="finished", played=True, play_count=1)


def test_mark_played_of_an_older_epoch_counts_there_and_the_present_goes_on() -> None:
    story = given(progress(2400, at=0), start(0, at=4000, run="phone"), progress(30, at=4030, run="phone"))
    story.then("accepted", epoch=2, position_ms=30_000)
    story.when(command("mark_played", at=100)).then("accepted", played=True, play_count=1, phase="playing", epoch=2)


def test_mark_unplayed_opens_an_epoch_at_0_and_keeps_the_count() -> None:
    story = given(finish(7200), command("mark_unplayed", at=60))
    story.then("accepted", played=False, play_count=1, position_ms=0, epoch=2, phase="idle", session_id=None)


def test_mark_unplayed_older_than_the_play_it_would_undo_is_late() -> None:
    given(progress(600), finish(7200, at=100), command("mark_unplayed", at=99)).then("late", played=True, epoch=1)


def test_clear_position_opens_an_epoch_at_0_and_keeps_played() -> None:
    story = given(finish(7200), command("clear_position", at=60))
    story.then("accepted", played=True, play_count=1, position_ms=0, epoch=2, session_id=None, device_id=None)


def test_old_mark_unplayed_changes_the_flag_and_leaves_position_and_epoch() -> None:
    story = given(command("mark_played", at=-100), command("set_position", 600, at=-90), progress(700, at=100))
    story.when(command("mark_unplayed", at=89)).then(
        "accepted", played=False, position_ms=700_000, epoch=2, session_id="tv"
    )
    story.when(command("mark_unplayed", at=90)).then("accepted", played=False, position_ms=0, epoch=3)


def test_old_clear_position_leaves_position_and_epoch() -> None:
    given(progress(700, at=100), command("clear_position", at=89)).then("accepted", position_ms=700_000, epoch=1)


def test_set_position_competes_with_progress_too() -> None:
    given(progress(600, at=100), command("set_position", 900, at=89)).then("late", position_ms=600_000)
    given(progress(600, at=100), command("set_position", 900, at=90)).then("accepted", position_ms=900_000)


def test_set_position_stays_in_the_epoch_unless_finished_or_back_to_the_start() -> None:
    given(progress(3000), command("set_position", 600, at=60)).then("accepted", epoch=1, resume_position_ms=600_000)
    given(progress(3000), command("set_position", 60, at=60)).then("accepted", epoch=2, position_ms=60_000)
    given(progress(10), command("set_position", 60, at=60)).then("accepted", epoch=1, position_ms=60_000)
    given(finish(7200), command("set_position", 3000, at=60)).then("accepted", epoch=2, position_ms=3_000_000)


def test_set_position_never_finishes() -> None:
    story = given(progress(3000), command("set_position", 7200, at=60))
    story.then("accepted", played=False, play_count=0, position_ms=7_200_000)
    assert story.shown["phase"] != "finished"


@pytest.mark.parametrize(
    ("kind", "position"), [("set_position", 600), ("mark_unplayed", None), ("clear_position", None)]
)
def test_after_a_command_the_former_run_counts_as_another_run(kind: str, position: float | None) -> None:
    story = given(progress(3000), command(kind, position, at=60)).then("accepted", session_id=None, device_id=None)
    if position is None:
        story.when(progress(3060, at=69)).then("accepted", session_id="tv", position_ms=3_060_000)
    else:
        story.when(progress(300, at=120)).then("pending", position_ms=600_000)


def test_mark_played_leaves_the_run_current() -> None:
    story = given(progress(3000), command("mark_played", at=60)).then("accepted", session_id="tv")
    story.when(progress(3070, at=70)).then("ignored", "after_finish", position_ms=3_000_000)


def test_clear_position_before_anything_played_keeps_older_reports_out() -> None:
    given(command("clear_position", at=100), progress(600, at=0)).then("late", "older_epoch", position_ms=0)


def test_commands_raise_event_time() -> None:
    story = given(progress(600, at=0), command("mark_played", at=500))
    assert story.state is not None
    assert story.state.event_time == story.last.event_time


def test_set_position_drops_a_pending_takeover() -> None:
    story = given(progress(2400), start(600, at=60, run="phone")).then("pending")
    story.when(command("set_position", 600, at=70)).then("accepted", pending=None).when(
        progress(610, at=90, run="phone")
    ).then("accepted", session_id="phone", epoch=1)


def test_commands_beside_play_do_not_take_over_its_sessions() -> None:
    story = given(progress(600), *(command("mark_played", at=i, event_id=str(i)) for i in range(20)))
    assert story.state is not None
    assert len(story.state.sessions) == 1


def test_pause_after_a_command_of_the_former_run_at_its_place_takes_nothing_over() -> None:
    story = given(progress(3000), pause(3000, at=10), command("set_position", 600, at=60))
    story.when(pause(3000, at=90)).then("ignored", "unchanged", position_ms=600_000)


def test_stop_and_seek_are_no_commands() -> None:
    given(stop(600), seek(900, at=10)).then("accepted", position_ms=900_000)
