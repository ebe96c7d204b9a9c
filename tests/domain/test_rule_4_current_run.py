"""Rule 4: inside the current run the newest report is the truth, rewinds included."""

from __future__ import annotations

import pytest

from tests.domain.given import finish, given, pause, progress, resume, seek, start, stop


def test_newer_report_moves_position_and_phase_either_way() -> None:
    story = given(progress(3000, seq=1), seek(1200, at=5, seq=2), pause(1200, at=9, seq=3))
    story.then("accepted", position_ms=1_200_000, phase="paused", epoch=1)


def test_order_is_by_sequence_when_both_have_one() -> None:
    given(progress(3000, at=60, seq=1)).when(progress(1200, at=0, seq=2)).then("accepted", position_ms=1_200_000)


def test_order_is_by_event_time_when_one_has_no_sequence() -> None:
    given(progress(3000, at=60, seq=1)).when(progress(1200, at=0)).then("late", "out_of_order", position_ms=3_000_000)


def test_ties_of_event_time_go_to_the_later_arrival() -> None:
    given(progress(3000, event_id="1")).when(progress(1200, event_id="2")).then("accepted", position_ms=1_200_000)


def test_position_and_phase_have_an_order_each() -> None:
    story = given(progress(600, seq=1), pause(seq=3, at=20)).then("accepted", phase="paused")
    story.when(progress(620, seq=2, at=10)).then("accepted", position_ms=620_000, phase="paused")


def test_report_newer_in_neither_order_is_late() -> None:
    given(progress(600, seq=3, at=20)).when(pause(500, seq=2, at=10)).then("late", position_ms=600_000, phase="playing")


def test_report_without_position_leaves_it() -> None:
    given(progress(600), pause(at=10)).then("accepted", position_ms=600_000, phase="paused").when(resume(at=20)).then(
        "accepted", position_ms=600_000, phase="playing"
    )


def test_finish_without_position_stands_at_the_duration() -> None:
    given(progress(600), finish(at=10)).then("accepted", phase="finished", position_ms=7_200_000, play_count=1)
    given(progress(600, duration=None), finish(at=10, duration=None)).then(
        "accepted", phase="finished", position_ms=600_000, play_count=1
    )


def test_finish_at_0_is_one_without_position() -> None:
    given(progress(600), finish(0, at=10)).then("accepted", phase="finished", position_ms=7_200_000)


@pytest.mark.parametrize(("position", "finished"), [(6479.999, False), (6480, True)])
def test_reaching_finish_at_finishes_and_counts(position: float, finished: bool) -> None:
    story = given(progress(600), progress(position, at=10))
    story.then("accepted", phase="finished" if finished else "playing", played=finished, play_count=int(finished))


def test_late_finish_counts_its_play_and_ends_the_epoch() -> None:
    story = given(progress(6900, seq=1), pause(seq=9, at=90)).when(finish(7000, seq=2, at=10))
    story.then("ignored", "after_finish")
    story = given(progress(3000, seq=3, at=30, duration=7200)).when(finish(3010, seq=2, at=20))
    story.then("late", phase="finished", played=True, play_count=1, position_ms=3_000_000, resume_position_ms=None)


def test_late_finish_does_not_end_what_a_newer_report_went_back_behind() -> None:
    story = given(seek(3000, seq=3, at=30)).when(finish(seq=2, at=20))
    story.then("late", phase="playing", played=True, play_count=1, position_ms=3_000_000)
    given(seek(2969, seq=3, at=30)).when(finish(3000, seq=2, at=20)).then("late", phase="playing", play_count=1)
    given(seek(2970, seq=3, at=30)).when(finish(3000, seq=2, at=20)).then("late", phase="finished", play_count=1)


def test_late_finish_is_held_to_what_lay_between() -> None:
    story = given(progress(1000, seq=2, at=20), progress(5000, seq=3, at=30)).when(finish(3000, seq=1, at=10))
    story.then("late", phase="playing", play_count=1)


def test_rewind_between_a_late_finish_and_now_reopens() -> None:
    story = given(progress(5000, seq=3, at=30)).when(finish(3000, seq=1, at=10)).then("late", phase="finished")
    story.when(progress(1000, seq=2, at=20)).then("accepted", phase="playing", position_ms=5_000_000, play_count=1)


# automated


def test_automated_report_behind_is_ignored() -> None:
    given(progress(600)).when(progress(599, at=10, automated=True)).then("ignored", "automated_behind")
    given(progress(600)).when(progress(601, at=10, automated=True)).then("accepted", position_ms=601_000)


@pytest.mark.parametrize("kind", [progress, stop, finish])
def test_automated_report_never_finishes_and_counts_no_play(kind: object) -> None:
    story = given(progress(600)).when(kind(7200, at=10, automated=True, played=True))  # type: ignore[operator]
    story.then("accepted", played=False, play_count=0)
    assert story.shown["phase"] != "finished"


# failed and empty


@pytest.mark.parametrize("one", [start(at=60), start(0, at=60)], ids=["none", "zero"])
def test_empty_start_changes_the_phase_and_leaves_the_position(one: object) -> None:
    given(progress(600), pause(610, at=10)).when(one).then("accepted", phase="playing", position_ms=610_000)  # type: ignore[arg-type]


@pytest.mark.parametrize("position", [None, 0])
def test_empty_stop_of_a_run_that_progressed_changes_the_phase_alone(position: float | None) -> None:
    given(progress(600)).when(stop(position, at=60)).then("accepted", phase="stopped", position_ms=600_000)


@pytest.mark.parametrize("position", [None, 0])
def test_empty_stop_of_a_run_without_progress_is_ignored(position: float | None) -> None:
    given(start(600)).when(stop(position, at=60)).then("ignored", "empty_stop", position_ms=600_000)


def test_empty_stop_near_the_start_moves_the_position() -> None:
    given(progress(30)).when(stop(0, at=60)).then("accepted", phase="stopped", position_ms=0)


@pytest.mark.parametrize("one", [stop(3, at=60, failed=True), start(3, at=60, failed=True)], ids=["stop", "start"])
def test_failed_report_leaves_the_position(one: object) -> None:
    given(progress(600)).when(one).then("accepted", phase="stopped", position_ms=600_000)  # type: ignore[arg-type]


def test_failed_stop_at_the_end_finishes_and_counts_nothing() -> None:
    given(progress(600)).when(stop(7200, at=60, failed=True, played=True)).then(
        "accepted", position_ms=600_000, played=False, play_count=0, phase="stopped"
    )


def test_failed_stop_of_a_run_without_progress_is_ignored() -> None:
    given(start(600)).when(stop(700, at=60, failed=True)).then("ignored", "empty_stop", position_ms=600_000)


# played on a stop


@pytest.mark.parametrize(("position", "believed"), [(3600, False), (3600.001, True)])
def test_played_is_believed_past_half_of_the_duration(position: float, believed: bool) -> None:
    story = given(progress(600)).when(stop(position, at=60, played=True))
    story.then("accepted", played=believed, phase="finished" if believed else "stopped")


@pytest.mark.parametrize("position", [None, 0])
def test_played_without_a_position_is_believed_by_the_last_one_of_the_run(position: float | None) -> None:
    given(progress(5000)).when(stop(position, at=60, played=True)).then(
        "accepted", played=True, phase="finished", position_ms=5_000_000
    )
    given(progress(3000)).when(stop(position, at=60, played=True)).then("accepted", played=False, phase="stopped")


def test_played_with_an_unknown_duration_is_believed_when_the_run_progressed() -> None:
    given(progress(600, duration=None)).when(stop(700, at=60, duration=None, played=True)).then(
        "accepted", played=True, phase="finished"
    )
    given(start(600, duration=None)).when(stop(700, at=60, duration=None, played=True)).then(
        "accepted", played=False, phase="stopped"
    )


def test_played_on_another_kind_is_not_asked() -> None:
    given(progress(600)).when(pause(5000, at=60, played=True)).then("accepted", played=False, phase="paused")


# heartbeats


def test_heartbeat_of_a_paused_player_does_not_raise_event_time() -> None:
    story = given(progress(600), pause(610, at=10))
    paused_at = story.last.event_time
    for beat in (progress(610, at=40), progress(610, at=70), pause(610, at=100)):
        story = story.when(beat).then("accepted", phase="paused", event_time=paused_at)
    story.when(progress(620, at=110)).then("accepted", phase="playing", event_time=paused_at + 100_000)


def test_progress_at_the_place_of_a_pause_plays_when_a_report_between_is_missing() -> None:
    given(pause(610, seq=1), progress(610, at=60, seq=3)).then("accepted", phase="playing")


def test_pause_right_before_the_newest_progress_at_its_place_is_believed_late() -> None:
    given(progress(610, at=60, seq=2)).when(pause(610, seq=1)).then("accepted", phase="paused")
    given(progress(610, at=60, seq=3)).when(pause(610, seq=1)).then("late", phase="playing")


def test_seek_says_that_the_run_plays() -> None:
    given(seek(600)).then("accepted", phase="playing")
