"""What every verdict but duplicate and rejected merges: listening and plays."""

from __future__ import annotations

from typing import Any

from tests.domain.given import Story, finish, given, pause, progress, start, stop

PHONE: dict[str, Any] = {"run": "phone"}
DAY = 86_400_000
SONG: dict[str, Any] = {"duration": 300, "media_kind": "music"}


def test_listening_is_the_maximum_of_a_session_never_a_sum() -> None:
    story = given(*(progress(600 + i, at=i, listened_ms=i * 1000) for i in (10, 20, 30))).then(
        "accepted", listened_ms=30_000
    )
    assert [decision.listened_added_ms for decision in story.decisions] == [10_000, 10_000, 10_000]
    story.when(progress(605, at=5, listened_ms=25_000)).then("late", listened_ms=30_000)


def test_listening_of_two_sessions_adds_up() -> None:
    given(progress(600, listened_ms=5000), progress(660, at=60, listened_ms=7000, **PHONE)).then(
        "accepted", listened_ms=12_000
    )


def test_late_pending_and_ignored_reports_add_their_listening() -> None:
    story = given(progress(600, at=100))
    story = story.when(progress(500, at=0, listened_ms=1000, **PHONE)).then("late", listened_ms=1000)
    story = story.when(progress(300, at=200, listened_ms=1000, run="web")).then("pending", listened_ms=2000)
    story.when(stop(400, at=201, listened_ms=3000, run="web")).then("ignored", "no_intent", listened_ms=4000)


def test_growth_of_more_than_24_h_at_once_is_not_believed() -> None:
    story = given(progress(600, listened_ms=1000)).when(progress(610, at=10, listened_ms=1001 + DAY))
    story.then("accepted", note="listened_implausible", listened_ms=1000)
    story.when(progress(620, at=20, listened_ms=1000 + DAY)).then("accepted", listened_ms=1000 + DAY)


def test_negative_listening_is_not_believed() -> None:
    given(progress(600, listened_ms=-1)).then("accepted", note="listened_implausible", listened_ms=0)


def test_play_counts_once_at_played_at_and_not_again_at_the_finish() -> None:
    story = given(start(0, **SONG), progress(149.999, at=150, **SONG)).then("accepted", play_count=0, played=False)
    story = story.when(progress(150, at=151, **SONG)).then("accepted", play_count=1, played=True, phase="playing")
    assert (story.last.play_counted, story.last.play_epoch) == (True, 1)
    story.when(finish(300, at=300, **SONG)).then("accepted", play_count=1, phase="finished")


def test_late_report_that_reached_played_at_counts() -> None:
    given(pause(100, seq=3, at=160, **SONG)).when(progress(200, seq=2, at=150, **SONG)).then(
        "late", play_count=1, played=True, position_ms=100_000
    )
    given(progress(100, at=160, **SONG)).when(progress(200, at=100, **PHONE, **SONG)).then("late", play_count=1)


def test_extrapolated_report_counts_no_play() -> None:
    given(progress(100, **SONG)).when(progress(200, at=100, automated=True, **SONG)).then("accepted", play_count=0)


def test_ignored_report_counts_no_play() -> None:
    given(start(0, **SONG)).when(finish(origin="echo", **SONG)).then("ignored", play_count=0, played=False)
    given(progress(100, **SONG)).when(progress(10_000, at=9, **SONG)).then("ignored", play_count=0)


def test_pending_report_that_finishes_counts() -> None:
    given(progress(5000, duration=None)).when(finish(3000, at=60, duration=None, **PHONE)).then(
        "pending", play_count=1, played=True, phase="playing", position_ms=5_000_000
    )


def rewatched() -> Story:
    return given(
        finish(7200), start(0, at=9000, **PHONE), progress(20, at=9020, **PHONE), progress(40, at=9040, **PHONE)
    ).then("accepted", epoch=2, play_count=1, played=True)


def test_each_epoch_counts_its_own_play() -> None:
    story = rewatched().when(finish(7200, at=16_000, **PHONE)).then("accepted", play_count=2)
    assert story.last.play_epoch == 2


def test_report_of_the_current_run_counts_now_whatever_its_clock_says() -> None:
    story = given(finish(7200), *(progress(s, at=9000 + s, seq=s, **PHONE) for s in (1, 20, 40))).then(
        "accepted", epoch=2
    )
    story = story.when(finish(7200, at=1000, seq=50, **PHONE)).then("accepted", play_count=2, phase="finished")
    assert story.last.play_epoch == 2


def test_report_of_a_runs_earlier_playthrough_counts_there() -> None:
    story = rewatched().when(finish(7200, at=8995, **PHONE)).then("late", play_count=1, phase="playing")
    assert not story.last.play_counted


def test_position_moved_tells_turns_of_position_phase_and_epoch() -> None:
    story = given(progress(600))
    assert story.last.position_moved
    assert story.when(pause(600, at=10)).last.position_moved
    assert not story.when(progress(600, at=10)).last.position_moved
    assert not story.when(progress(300, at=100, **PHONE)).last.position_moved
