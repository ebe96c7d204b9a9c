"""Failures real people met elsewhere: progress that went backwards, was reset, out of order, or of a wrong clock.

Each test names the report it comes from; what it holds to is the kind of failure, not the one case.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streams.domain.playback import decide
from streams.domain.policy import FURTHEST
from streams.domain.reading import read_report
from streams.domain.report import Rejected
from tests.domain.given import NOON, command, finish, given, pause, progress, report, seek, start, stop

HOUR = 3600
BOOK: dict[str, Any] = {"duration": 10 * HOUR, "media_kind": "audiobook"}
PHONE: dict[str, Any] = {"run": "phone"}


def test_audiobookshelf_app_1940_old_session_synced_later_does_not_reset_hours_of_listening() -> None:
    story = given(progress(7.4 * HOUR, at=12, **BOOK)).when(progress(1.6, at=0, **PHONE, **BOOK))
    story.then("late", position_ms=26_640_000, resume_position_ms=26_640_000)


def test_audiobookshelf_app_2024_offline_listening_is_kept_for_the_person_on_reconnect() -> None:
    offline = [progress(HOUR + s, at=s, seq=s, listened_ms=s * 1000, **PHONE, **BOOK) for s in (1, 600, 3000)]
    story = given(progress(HOUR, at=4000, **BOOK)).when(*offline)
    story.then("late", position_ms=3_600_000, listened_ms=3_000_000)
    assert story.shown["conflict"]["position_ms"] == 6_600_000
    given(progress(HOUR, at=4000, **BOOK), policy=FURTHEST).when(*offline).then("accepted", position_ms=6_600_000)


def test_audiobookshelf_app_1_stale_value_of_a_server_does_not_skip_the_player_back() -> None:
    stale = progress(600, at=0, run=None, device="server", origin="poll")
    given(progress(900, at=600)).when(stale).then("late", position_ms=900_000, session_id="tv")


def test_audiobookshelf_app_890_online_and_offline_of_one_book_meet_in_one_state() -> None:
    story = given(progress(HOUR, **BOOK)).when(progress(2 * HOUR, at=4000, **PHONE, **BOOK)).then("accepted")
    story.when(progress(2 * HOUR + 10, at=4010, **PHONE, **BOOK)).then("accepted", position_ms=7_210_000, epoch=1)


@pytest.mark.parametrize("position", [-1, -7200])
def test_audiobookshelf_app_73_negative_progress_is_rejected(position: float) -> None:
    given(progress(600)).when(progress(position, at=60)).then("rejected", position_ms=600_000)


def test_audiobookshelf_283_progress_far_beyond_the_end_is_not_100_percent() -> None:
    given(progress(600)).when(progress(720_000, at=60)).then("ignored", "beyond_duration", played=False)


def test_audiobookshelf_3543_sync_that_would_move_back_waits_for_proof() -> None:
    given(progress(5000)).when(progress(600, at=HOUR, **PHONE)).then("pending", position_ms=5_000_000)


def test_audiobookshelf_784_progress_of_a_download_counts_when_it_is_newer() -> None:
    given(progress(600)).when(progress(5000, at=HOUR, **PHONE)).then("accepted", position_ms=5_000_000)


def test_audiobookshelf_5188_app_that_prefers_its_own_value_does_not_overrule_a_newer_one() -> None:
    given(progress(600, **PHONE), progress(5000, at=HOUR)).when(progress(610, at=2 * HOUR, **PHONE)).then(
        "pending", position_ms=5_000_000
    )


def test_moonfin_1603_old_server_value_never_overwrites_the_further_newer_one() -> None:
    story = given(progress(5000, at=HOUR)).when(progress(600, at=0, run=None, device="server", origin="poll"))
    story.then("late", position_ms=5_000_000)


def test_jellyplay_85_old_offline_position_is_not_applied_after_finishing_online() -> None:
    story = given(progress(6000), finish(7200, at=1200)).when(progress(3000, at=600, **PHONE))
    story.then("late", phase="finished", play_count=1, resume_position_ms=None)


def test_dune_136_finished_episode_does_not_resume_at_4_minutes() -> None:
    story = given(progress(200, seq=1), progress(240, at=40, seq=2), finish(7200, at=7000, seq=4), stop(at=7001, seq=5))
    story.when(progress(250, at=50, seq=3)).then("late", phase="finished", resume_position_ms=None)


def test_jellyfin_17226_report_near_the_start_does_not_erase_the_resume_point() -> None:
    for one in (start(0, at=HOUR, **PHONE), progress(3, at=HOUR, **PHONE), stop(0, at=HOUR, **PHONE)):
        given(progress(2400)).when(one).then(one_of(one), resume_position_ms=2_400_000)


def one_of(one: Any) -> str:
    return "ignored" if one.kind == "stop" else "pending"


def test_jellyfin_14351_short_rewatch_does_not_clear_the_played_flag() -> None:
    story = given(finish(7200), *(progress(s, at=HOUR + s, **PHONE) for s in (0, 10, 20, 30, 40)))
    story = story.then("accepted", epoch=2, played=True, play_count=1)
    story.when(stop(45, at=HOUR + 45, **PHONE)).then("accepted", played=True, play_count=1)


def test_jellyfin_17561_watched_state_is_not_reverted_by_a_late_progress() -> None:
    story = given(progress(6000), finish(7200, at=1200)).when(progress(6100, at=100), stop(6200, at=200))
    story.then("late", played=True, phase="finished", play_count=1)


def test_jellyfin_17631_extrapolated_position_never_runs_ahead_to_a_finish_or_back() -> None:
    story = given(progress(6000)).when(progress(7100, at=600, automated=True)).then("accepted", played=False)
    assert story.shown["phase"] == "playing"
    story.when(progress(6010, at=610)).then("accepted", position_ms=6_010_000, played=False)


def test_jellycon_69_server_ahead_of_the_person_takes_nothing_over() -> None:
    guess = progress(2400, at=60, run=None, device="server", automated=True)
    given(progress(600)).when(guess).then("accepted", position_ms=600_000, session_id="tv")


def test_iina_jellyfin_83_resume_of_the_previous_file_stays_with_its_media() -> None:
    film = given(progress(600)).state
    next_film = decide(None, replace(progress(0, at=10), media="n")).state
    assert film is not None
    assert next_film is not None
    assert (film.position_ms, next_film.position_ms) == (600_000, 0)


def test_script_trakt_434_new_film_does_not_start_at_the_last_ones_position() -> None:
    state = decide(None, replace(start(at=10), media="n")).state
    assert state is not None
    assert (state.position_ms, state.resume_position_ms) == (0, None)


@pytest.mark.parametrize("seconds_as_ms", [480, 8])
def test_script_trakt_571_minutes_that_come_back_as_seconds_do_not_take_over(seconds_as_ms: int) -> None:
    wrong = replace(progress(0, at=HOUR, **PHONE), position_ms=seconds_as_ms)
    given(progress(480)).when(wrong).then("pending", resume_position_ms=480_000)


def test_script_trakt_479_runtime_of_0_is_unknown_and_finishes_nothing() -> None:
    given(progress(600, duration=0)).then("accepted", duration_ms=None, played=False, resume_position_ms=600_000)
    given(progress(600)).when(progress(610, at=10, duration=0)).then("accepted", duration_ms=7_200_000)


def test_script_trakt_453_deleted_resume_point_does_not_come_back() -> None:
    cleared = given(progress(600), command("clear_position", at=60)).then("accepted", resume_position_ms=None)
    cleared.when(progress(610, at=40, **PHONE)).then("late", "older_epoch", resume_position_ms=None)
    cleared.when(pause(600, at=30)).then("late", "older_epoch", resume_position_ms=None)


def test_universal_trakt_scrobbler_73_resumed_play_does_not_start_at_0() -> None:
    story = given(progress(2400)).when(start(at=HOUR, **PHONE)).then("pending", position_ms=2_400_000)
    story.when(progress(2410, at=HOUR + 10, **PHONE)).then("accepted", position_ms=2_410_000, epoch=1)


def test_shelftime_23_unchanged_values_change_nothing() -> None:
    story = given(progress(600, duration=0, event_id=None))
    again = story.when(progress(600, duration=0, event_id=None)).then("duplicate")
    assert again.state is story.state
    heartbeat = story.when(progress(600, at=60, duration=0)).then("accepted", event_time=story.shown["event_time"])
    assert not heartbeat.last.position_moved


def test_listenbrainz_352_future_time_is_not_believed() -> None:
    story = given(report("finish", at=0, occurred_at=NOON * 2, received_at=NOON)).then("accepted", note="clock_ahead")
    assert story.shown["event_time"] == NOON


def test_deadbeef_1928_wrong_clock_is_no_reason_to_refuse() -> None:
    for wrong in (0, 1, NOON * 3):
        given(replace(progress(600), occurred_at=wrong)).then("accepted", position_ms=600_000)


def test_maloja_73_retry_is_no_new_listen_when_the_server_sets_the_time() -> None:
    one = finish(at=0, run=None, origin="webhook", seq=None, event_id="retry")
    given(one).when(replace(one, received_at=one.received_at + 5000)).then("duplicate", play_count=1)


def test_submusic_108_seconds_instead_of_ms_are_not_1970() -> None:
    story = given(replace(progress(600), occurred_at=NOON // 1000)).then("accepted", note="time_in_seconds")
    assert story.shown["event_time"] == NOON


def test_audiobookshelf_session_of_last_week_keeps_its_own_time() -> None:
    week = 7 * 86_400
    given(progress(600)).when(progress(5000, at=-week, origin="import", **PHONE)).then("late", position_ms=600_000)


def test_bad_value_is_answered_and_its_neighbour_unharmed() -> None:
    assert isinstance(read_report({"user": "ana", "media": "m", "kind": "progress", "received_at": NOON}), Rejected)
    given(progress(600)).when(replace(progress(700, at=10), position_ms=-5), progress(700, at=20)).then(
        "accepted", position_ms=700_000
    )


def test_rewind_in_the_same_session_is_the_truth() -> None:
    given(progress(5000, seq=1)).when(seek(600, at=10, seq=2)).then("accepted", position_ms=600_000, epoch=1)
