"""ListenBrainz: each listen type and each trap known of submissions."""

from __future__ import annotations

from typing import Any

import pytest

from streams.ingest.hooks import Listen, ParsedReport, Rejected, Result, parse
from tests.ingest.hooks.payloads import JsonObject, encoded, listen, without

MBID = "0B0D1C1E-0000-4000-8000-0000000000AA"


def submit(listen_type: object, *records: object) -> list[Result]:
    return parse("listenbrainz", encoded({"listen_type": listen_type, "payload": list(records)}))


def report(listen_type: str, record: object) -> ParsedReport:
    (result,) = submit(listen_type, record)
    assert isinstance(result, ParsedReport), result
    return result


def reasons(*results: Result) -> list[str | None]:
    return [result.reason if isinstance(result, Rejected) else None for result in results]


def track(**fields: Any) -> JsonObject:
    record = listen()
    return record | {"track_metadata": record["track_metadata"] | fields}


def extra(**fields: Any) -> JsonObject:
    record = listen()
    return track(additional_info=record["track_metadata"]["additional_info"] | fields)


def test_single_listen_is_a_finished_play_at_its_time() -> None:
    single = report("single", listen())
    assert single == Listen(
        kind="finish",
        origin="client",
        upstream_media=single.upstream_media,
        media_kind="music",
        device_id="navidrome",
        duration_ms=61_730,
        occurred_at=1_777_890_600_000,
        played=True,
    )


def test_user_comes_from_the_token_not_from_the_body() -> None:
    assert report("single", listen(user_name="mira")).upstream_user is None


def test_import_is_an_import() -> None:
    assert report("import", listen()).origin == "import"


def test_playing_now_is_a_start_without_time_or_play() -> None:
    now = report("playing_now", listen())
    assert (now.kind, now.occurred_at, now.played, now.origin) == ("start", None, None, "client")


def test_playing_now_and_the_listen_after_it_name_the_same_media() -> None:
    assert report("playing_now", listen()).upstream_media == report("single", listen()).upstream_media


def test_duration_in_seconds_is_read() -> None:
    assert report("single", track(additional_info={"duration": 61})).duration_ms == 61_000


def test_duration_in_both_units_takes_the_ms() -> None:
    assert report("single", extra(duration=61)).duration_ms == 61_730


def test_unreadable_duration_costs_no_listen() -> None:
    assert report("single", extra(duration_ms="long")).duration_ms is None


def test_listened_at_in_ms_is_taken_as_such() -> None:
    assert report("single", listen(listened_at=1_777_890_600_000)).occurred_at == 1_777_890_600_000


@pytest.mark.parametrize(
    ("listened_at", "expected"),
    [(None, "no_time"), ("soon", "bad_time"), (-1, "bad_time"), (10**17, "bad_time"), (5_000_000_000, "bad_time")],
)
def test_unusable_time_is_rejected(listened_at: object, expected: str) -> None:
    assert reasons(*submit("single", listen(listened_at=listened_at))) == [expected]


def test_edges_of_plausible_seconds_and_ms_are_read() -> None:
    for listened_at, expected in ((4_102_444_800, 4_102_444_800_000), (946_684_800_000, 946_684_800_000), (0, 0)):
        assert report("single", listen(listened_at=listened_at)).occurred_at == expected
    assert reasons(*submit("single", listen(listened_at=4_102_444_801))) == ["bad_time"]
    assert reasons(*submit("single", listen(listened_at=946_684_799_999))) == ["bad_time"]


def test_recording_mbid_names_the_track_in_lower_case() -> None:
    assert report("single", extra(recording_mbid=MBID)).upstream_media == f"mbid:{MBID.lower()}"


@pytest.mark.parametrize("mbid", ["", "not-one", None, 5])
def test_unusable_mbid_leaves_the_tags_to_name_the_track(mbid: object) -> None:
    assert report("single", extra(recording_mbid=mbid)).upstream_media == report("single", listen()).upstream_media


def test_tags_spelled_alike_name_one_track() -> None:
    composed = report("single", track(artist_name="Kité & Keel", track_name="Low Tide"))
    decomposed = report("single", track(artist_name=" kite\N{COMBINING ACUTE ACCENT} &  KEEL", track_name="low tide"))
    assert composed.upstream_media == decomposed.upstream_media


def test_artist_and_title_do_not_run_into_each_other() -> None:
    left, right = track(artist_name="ab", track_name="c"), track(artist_name="a", track_name="bc")
    assert report("single", left).upstream_media != report("single", right).upstream_media


def test_other_release_is_another_track() -> None:
    assert report("single", track(release_name="Live")).upstream_media != report("single", listen()).upstream_media


def test_id_of_a_track_never_changes() -> None:
    assert report("single", listen()).upstream_media == "tags:4dc8754dd202c300433b9bbc61e53267"


def test_each_record_stands_for_itself() -> None:
    nul = track(track_name="Low\x00Tide")
    results = submit("import", listen(), track(artist_name=""), 5, nul, listen(listened_at=1))
    assert reasons(*results) == [None, "missing_media", "missing_media", "invalid_text", None]


def test_long_player_name_costs_no_listen() -> None:
    assert report("single", extra(media_player="x" * 300)).device_id == "navidrome"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"listen_type": "hum", "payload": [listen()]}, "unknown_listen_type"),
        ({"payload": [listen()]}, "unknown_listen_type"),
        ({"listen_type": "single", "payload": []}, "bad_shape"),
        ({"listen_type": "single", "payload": listen()}, "bad_shape"),
        ({"listen_type": "import", "payload": [1] * 1001}, "too_many"),
        ([], "unknown_listen_type"),
    ],
)
def test_unusable_submission_is_one_rejection(body: object, expected: str) -> None:
    assert reasons(*parse("listenbrainz", encoded(body))) == [expected]


def test_missing_metadata_is_rejected() -> None:
    assert reasons(*submit("single", without(listen(), "track_metadata"))) == ["missing_media"]
