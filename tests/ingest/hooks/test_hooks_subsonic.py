"""Subsonic: each call and answer that tells of playback, and each trap known of them."""

from __future__ import annotations

from typing import Any

import pytest

from streams.ingest.hooks import Ignored, Listen, ParsedReport, Rejected, Result, parse
from tests.ingest.hooks.payloads import SECRETS, answer, call, encoded

T = 1_777_890_600_000


def every(body: bytes) -> list[Result]:
    results = parse("subsonic", body)
    assert not [secret for secret in SECRETS if secret in repr(results)]
    return results


def report(body: bytes) -> ParsedReport:
    (result,) = every(body)
    assert isinstance(result, ParsedReport), result
    return result


def reason(body: bytes) -> str:
    (result,) = every(body)
    assert isinstance(result, Ignored | Rejected), result
    return result.reason


def song(**fields: Any) -> dict[str, Any]:
    return {"id": "tr-6", "title": "Long One", "duration": 61, "bookmarkPosition": 30, "type": "music"} | fields


def test_scrobble_is_a_finished_play() -> None:
    assert report(call("scrobble", f"id=tr-6&time={T}")) == Listen(
        kind="finish",
        origin="client",
        upstream_user="mira",
        upstream_media="tr-6",
        media_kind="music",
        device_id="Probe",
        occurred_at=T,
        played=True,
    )


def test_scrobble_of_now_playing_is_a_start_without_time() -> None:
    start = report(call("scrobble.view", f"id=tr-6&time={T}&submission=false"))
    assert (start.kind, start.played, start.occurred_at) == ("start", None, None)


def test_scrobble_repeats_id_and_time() -> None:
    results = every(call("scrobble", f"id=a&id=b&time={T}&time={T + 1}&submission=true"))
    assert [(result.upstream_media, result.occurred_at) for result in results if isinstance(result, ParsedReport)] == [
        ("a", T),
        ("b", T + 1),
    ]


def test_scrobble_of_several_ids_without_times_is_now() -> None:
    assert [type(result) for result in every(call("scrobble", "id=a&id=b"))] == [Listen, Listen]


def test_scrobble_with_another_number_of_times_is_rejected_not_guessed() -> None:
    assert reason(call("scrobble", f"id=a&id=b&time={T}")) == "times_mismatch"


def test_one_bad_time_costs_one_report() -> None:
    first, second = every(call("scrobble", f"id=a&id=b&time=then&time={T}"))
    assert isinstance(first, Rejected)
    assert first.reason == "bad_time"
    assert isinstance(second, ParsedReport)


def test_seconds_sent_for_ms_are_read_as_seconds_not_as_1970() -> None:
    assert report(call("scrobble", f"id=a&time={T // 1000}")).occurred_at == T


def test_negative_time_is_rejected() -> None:
    assert reason(call("scrobble", "id=a&time=-5")) == "bad_time"


@pytest.mark.parametrize(
    ("state", "kind"), [("starting", "start"), ("playing", "progress"), ("paused", "pause"), ("stopped", "stop")]
)
def test_report_playback_states_are_kinds(state: str, kind: str) -> None:
    played = report(call("reportPlayback", f"mediaId=tr-6&mediaType=song&positionMs=120000&state={state}"))
    assert (played.kind, played.position_ms, played.media_kind) == (kind, 120_000, "music")


def test_report_playback_of_a_podcast_is_a_podcast() -> None:
    assert report(call("reportPlayback", "mediaId=p&mediaType=podcast&positionMs=1&state=playing")).media_kind == (
        "podcast"
    )


def test_invented_state_completed_is_rejected() -> None:
    assert reason(call("reportPlayback", "mediaId=tr-6&positionMs=1&state=completed")) == "unknown_state"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("mediaId=a&state=playing", "missing_position"),
        ("mediaId=a&state=playing&positionMs=-1", "invalid_position"),
        ("mediaId=a&state=playing&positionMs=1.5", "invalid_position"),
        ("state=playing&positionMs=1", "missing_media"),
    ],
)
def test_unusable_report_playback_is_rejected(query: str, expected: str) -> None:
    assert reason(call("reportPlayback", query)) == expected


def test_saved_queue_tells_the_position_of_its_current_track() -> None:
    saved = report(call("savePlayQueue", "id=a&id=b&current=b&position=2500"))
    assert (saved.kind, saved.upstream_media, saved.position_ms) == ("progress", "b", 2_500)


def test_saved_queue_of_one_track_needs_no_current() -> None:
    assert report(call("savePlayQueue", "id=a&position=2500")).upstream_media == "a"


def test_saved_queue_without_ids_clears_the_queue_and_no_position() -> None:
    assert reason(call("savePlayQueue", "position=5")) == "queue_cleared"


@pytest.mark.parametrize("query", ["id=a&id=b&current=b", "id=a&id=b&position=5"])
def test_saved_queue_without_position_or_current_is_ignored(query: str) -> None:
    assert reason(call("savePlayQueue", query)) == "no_position"


def test_saved_queue_by_index_counts_from_zero() -> None:
    assert report(call("savePlayQueueByIndex", "id=a&id=b&currentIndex=1&position=7")).upstream_media == "b"
    assert reason(call("savePlayQueueByIndex", "id=a&id=b&currentIndex=2&position=7")) == "bad_index"


def test_bookmarks_are_commands() -> None:
    created, deleted = report(call("createBookmark", "id=a&position=30000")), report(call("deleteBookmark", "id=a"))
    assert (created.kind, created.position_ms) == ("set_position", 30_000)
    assert (deleted.kind, deleted.position_ms) == ("clear_position", None)
    assert reason(call("createBookmark", "id=a")) == "missing_position"


@pytest.mark.parametrize(
    "body",
    [
        f"http://music.example:4533/rest/scrobble.view?id=tr-6&time={T}&u=mira&c=Probe".encode(),
        f"GET /rest/scrobble?id=tr-6&time={T}&u=mira&c=Probe HTTP/1.1".encode(),
        f"method=scrobble&id=tr-6&time={T}&u=mira&c=Probe".encode(),
        f"scrobble?id=tr-6&time={T}&u=mira&c=Probe\n".encode(),
    ],
)
def test_a_call_is_read_in_each_of_its_spellings(body: bytes) -> None:
    assert report(body) == report(call("scrobble", f"id=tr-6&time={T}"))


@pytest.mark.parametrize("method", ["ping", "getAlbumList2", "stream", "star", "madeUp"])
def test_calls_without_playback_news_are_ignored(method: str) -> None:
    assert reason(call(method, "id=1")) == "no_news"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"/rest/scrobble?id=1&apiKey=apikey-9d8c7b6a", "missing_user"),
        (b"u=mira&id=1", "no_method"),
        (b"/rest/scrobble?u=mira", "missing_media"),
        (b"/rest/scrobble?u=mira&id=%FF", "bad_encoding"),
        (b"<subsonic-response status='ok'/>", "xml"),
        (b"{}", "bad_shape"),
        (b"/rest/scrobble?u=mira" + b"&id=1" * 1001, "too_many"),
        (b"/rest/scrobble?u=mira" + b"&id=1" * 20_001, "too_many_fields"),
    ],
)
def test_unusable_bodies_are_one_rejection(body: bytes, expected: str) -> None:
    assert reason(body) == expected


def test_bookmark_position_is_ms_although_the_song_s_own_is_seconds() -> None:
    body = answer(
        bookmarks={
            "bookmark": [
                {"position": 30_000, "username": "mira", "changed": "2026-05-04T10:30:00.943402938Z", "entry": song()}
            ]
        }
    )
    assert report(body) == ParsedReport(
        kind="progress",
        origin="client",
        upstream_user="mira",
        upstream_media="tr-6",
        media_kind="music",
        position_ms=30_000,
        duration_ms=61_000,
        occurred_at=1_777_890_600_943,
    )


def test_time_without_zone_is_utc_and_year_one_is_never() -> None:
    def at(changed: str) -> int | None:
        return report(
            answer(bookmarks={"bookmark": {"username": "u", "changed": changed, "entry": song()}})
        ).occurred_at

    assert at("2026-05-04T10:30:00") == T
    assert at("0001-01-01T00:00:00Z") is None


def test_queue_answer_tells_its_current_track_and_zero_when_left_out() -> None:
    queue = {"current": "tr-6", "username": "mira", "changedBy": "Probe", "changed": "2026-05-04T10:30:00Z"}
    told = report(answer(playQueue=queue | {"entry": [song(id="tr-5"), song()]}))
    assert (told.upstream_media, told.position_ms, told.duration_ms, told.device_id) == ("tr-6", 0, 61_000, "Probe")


def test_queue_answer_happened_when_it_was_saved() -> None:
    queue = {"current": "tr-6", "username": "mira", "changed": "2026-05-04T10:30:00Z", "entry": song()}
    told = report(answer(playQueue=queue))
    assert (told.kind, told.occurred_at) == ("progress", T)


def test_bookmark_never_changed_happened_when_it_was_created() -> None:
    bookmark = {"username": "u", "created": "2026-05-04T10:30:00Z", "entry": song()}
    assert report(answer(bookmarks={"bookmark": [bookmark]})).occurred_at == T


def test_unreadable_positions_of_answers_are_rejected_one_by_one() -> None:
    bookmark = {"username": "u", "position": 5, "entry": song()}
    odd, good = every(answer(bookmarks={"bookmark": [bookmark | {"position": "far"}, bookmark]}))
    assert isinstance(odd, Rejected)
    assert odd.reason == "invalid_position"
    assert isinstance(good, ParsedReport)
    assert reason(answer(playQueue={"current": "1", "username": "u", "position": -1})) == "invalid_position"
    assert reason(answer(nowPlaying={"entry": [song(username="u", positionMs="x")]})) == "invalid_position"


def test_queue_answer_whose_current_is_not_listed_has_no_duration() -> None:
    told = report(answer(playQueue={"current": 9, "position": 5, "username": "mira", "entry": [song()]}))
    assert (told.upstream_media, told.duration_ms) == ("9", None)


def test_queue_answer_by_index_is_read() -> None:
    queue = {"currentIndex": 1, "position": 7, "username": "mira", "entry": [song(id="tr-5"), song()]}
    assert report(answer(playQueueByIndex=queue)).upstream_media == "tr-6"
    assert reason(answer(playQueueByIndex=queue | {"currentIndex": 2})) == "bad_index"


def test_queue_nobody_saved_is_ignored() -> None:
    empty = {"username": "mira", "changed": "0001-01-01T00:00:00Z", "changedBy": ""}
    assert reason(answer(playQueue=empty)) == "nothing_in_it"


def test_now_playing_position_is_the_server_s_guess() -> None:
    entry = song(username="mira", minutesAgo=0, playerId=1, playerName="Probe", state="playing", positionMs=4_000)
    told = report(answer(nowPlaying={"entry": [entry]}))
    assert (told.kind, told.automated, told.position_ms, told.device_id) == ("progress", True, 4_000, "Probe")


def test_now_playing_of_older_servers_is_a_start() -> None:
    told = report(answer(nowPlaying={"entry": [song(username="mira", playerId=1)]}))
    assert (told.kind, told.position_ms, told.device_id) == ("start", None, "1")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (answer(nowPlaying={}), "nothing_in_it"),
        (answer(bookmarks={}), "nothing_in_it"),
        (answer(scanStatus={"scanning": False}), "no_news"),
        (answer(bookmarks={"bookmark": [{"entry": song()}]}), "missing_user"),
        (answer(bookmarks={"bookmark": [{"username": "u"}]}), "missing_media"),
        (encoded({"subsonic-response": {"status": "failed", "error": {"message": SECRETS[1]}}}), "upstream_failed"),
    ],
)
def test_answers_without_positions_do_nothing(body: bytes, expected: str) -> None:
    assert reason(body) == expected


def test_audiobook_in_a_music_server_is_an_audiobook() -> None:
    body = answer(bookmarks={"bookmark": [{"username": "u", "position": 5, "entry": song(type="audiobook")}]})
    assert report(body).media_kind == "audiobook"
