"""Failures real people met elsewhere: loops, duplicates, retries and deltas that counted twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streams.domain.playback import decide
from tests.domain.given import RECEIVED, command, finish, given, pause, progress, resume, start, stop

SONG: dict[str, Any] = {"duration": 240, "media_kind": "music"}
HOUR = 3600


def test_plextraktsync_865_our_own_write_coming_back_counts_no_second_play() -> None:
    story = given(progress(6000), finish(7200, at=1200))
    for kind in ("mark_played", "finish", "stop"):
        echo = replace(finish(at=1230, run="fwd", source="plex"), kind=kind, origin="echo", played=True)
        story = story.when(echo).then("ignored", "echo", play_count=1, epoch=1)


def test_plextraktsync_918_two_writers_of_one_play_count_it_once() -> None:
    story = given(finish(7200, at=0))
    for writer in range(20):
        story = story.when(finish(7200, at=5, run=f"writer-{writer}", source=f"source-{writer}"))
    story.then("ignored", "after_finish", play_count=1)


def test_plextraktsync_905_pause_of_half_an_hour_is_no_second_play() -> None:
    story = given(progress(6400), pause(6400, at=10)).when(resume(6400, at=10 + 1900), progress(6490, at=2000))
    story = story.then("accepted", play_count=1, phase="finished")
    story.when(progress(6700, at=2240), stop(7100, at=2600)).then("ignored", play_count=1)


def test_plextraktsync_2368_marking_everything_again_counts_nothing() -> None:
    story = given(command("mark_played", event_id="1"))
    for again in range(2, 9):
        story = story.when(command("mark_played", at=again * HOUR, event_id=str(again)))
    story.then("accepted", play_count=1, played=True)


def test_plex_trakt_scrobbler_218_five_thousand_repeats_are_one_play() -> None:
    state = given(finish(7200, seq=1)).state
    for again in range(5200):
        repeat = finish(7200, at=again, seq=1 + again % 3, event_id=str(again))
        state = decide(state, repeat).state
    assert state is not None
    assert state.play_count == 1
    assert len(state.event_ids) <= 64


def test_plex_trakt_scrobbler_437_same_second_double_counts_once() -> None:
    given(finish(7200, event_id="1")).when(finish(7200, event_id="2")).then("ignored", play_count=1)


def test_emby_plugins_85_every_play_comes_twice_and_counts_once() -> None:
    reports = [start(0, event_id="1"), progress(3600, at=3600, event_id="2"), finish(7200, at=7200, event_id="3")]
    given(*(one for pair in zip(reports, reports, strict=True) for one in pair)).then("duplicate", play_count=1)


@pytest.mark.parametrize("delay", [1, 5, 54])
def test_multi_scrobbler_325_same_play_from_two_sources_counts_once(delay: float) -> None:
    story = given(start(0, **SONG), progress(130, at=130, **SONG), finish(at=240, **SONG)).then(
        "accepted", play_count=1
    )
    story.when(finish(at=240 + delay, run=None, source="listenbrainz", origin="import", **SONG)).then(
        "ignored", "after_finish", play_count=1
    )


def test_multi_scrobbler_same_play_reported_early_by_another_source_counts_once() -> None:
    story = given(finish(at=0, run=None, source="listenbrainz", origin="import", **SONG))
    story.when(progress(130, at=130, **SONG), finish(at=240, **SONG)).then("ignored", play_count=1)


def test_lastfm_85_two_equal_stops_in_one_second_at_0_change_nothing() -> None:
    story = given(progress(100, **SONG))
    for event_id in ("1", "2"):
        story = story.when(stop(0, at=101, event_id=event_id, **SONG)).then(
            "accepted", position_ms=100_000, play_count=0
        )
    first = given(start(0, **SONG), stop(0, at=1, event_id="1", **SONG)).then("ignored", "empty_stop")
    first.when(stop(0, at=1, event_id="2", **SONG)).then("ignored", "empty_stop", play_count=0)


def test_jellyfin_listenbrainz_112_same_timestamp_reused_is_not_dropped() -> None:
    given(progress(100, **SONG)).when(progress(110, **SONG)).then("accepted", position_ms=110_000)
    given(progress(100, **SONG)).when(replace(progress(100, **SONG), media="n")).then("accepted")


def test_listenbrainz_201_copies_seconds_apart_are_caught_by_sequence() -> None:
    first = finish(seq=3, event_id="1", **SONG)
    for delay in (5, 54):
        copy = replace(first, event_id=str(delay), received_at=RECEIVED + delay * 1000)
        given(first).when(copy).then("duplicate", play_count=1)


def test_listenbrainz_204_duplicates_inside_one_batch_count_once() -> None:
    batch = [finish(event_id="x", **SONG)] * 3
    given(*batch).then("duplicate", play_count=1)


def test_listenbrainz_171_equal_reports_of_two_people_are_no_duplicates() -> None:
    ana = finish(event_id="x", **SONG)
    assert decide(None, ana).verdict == "accepted"
    assert decide(None, replace(ana, user="ben")).verdict == "accepted"


def test_navidrome_1397_unpause_scrobbles_nothing_again() -> None:
    story = given(progress(130, **SONG), pause(150, at=20, **SONG)).then("accepted", play_count=1)
    story.when(resume(150, at=300, **SONG), progress(160, at=310, **SONG)).then("accepted", play_count=1, epoch=1)


def test_eavesdrop_101_thresholds_of_two_sources_make_one_play() -> None:
    story = given(progress(120, **SONG)).then("accepted", play_count=1, phase="playing")
    story.when(finish(at=120, **SONG)).then("accepted", play_count=1, phase="finished")


def test_audiobookshelf_2548_total_sent_again_and_again_is_no_delta() -> None:
    book: dict[str, Any] = {"duration": 36_000, "media_kind": "audiobook"}
    story = given(*(progress(600 + i, at=i, seq=i, listened_ms=5_400_000, **book) for i in range(1, 100)))
    story.then("accepted", listened_ms=5_400_000)


def test_audiobookshelf_4481_more_than_a_day_at_once_is_no_listening() -> None:
    given(progress(600)).when(progress(610, at=10, listened_ms=150 * HOUR * 1000)).then(
        "accepted", note="listened_implausible", listened_ms=0
    )


def test_audiobookshelf_865_unix_time_is_no_listening_time() -> None:
    given(progress(600, listened_ms=1_796_069_700_000)).then("accepted", note="listened_implausible", listened_ms=0)
