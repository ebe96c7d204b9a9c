"""Plex: each event and each trap known of its payloads."""

from __future__ import annotations

import json

import pytest

from streams.ingest.hooks import Ignored, Observation, ParsedReport, Rejected, Result, parse
from tests.ingest.hooks.payloads import SECRETS, JsonObject, encoded, form, multipart, plex, without


def one(body: bytes) -> Result:
    (result,) = parse("plex", body)
    assert not [secret for secret in SECRETS if secret in repr(result)]
    return result


def report(payload: JsonObject) -> ParsedReport:
    result = one(multipart(payload))
    assert isinstance(result, ParsedReport), result
    return result


def reason(body: bytes) -> str:
    result = one(body)
    assert isinstance(result, Ignored | Rejected), result
    return result.reason


def changed(event: str, block: str, **fields: object) -> JsonObject:
    payload = plex(event)
    return payload | {block: payload[block] | fields}


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ("media.play", "start"),
        ("playback.started", "start"),
        ("media.pause", "pause"),
        ("media.resume", "resume"),
        ("media.stop", "stop"),
        ("media.scrobble", "finish"),
    ],
)
def test_playback_events_are_reports(event: str, kind: str) -> None:
    assert report(plex(event)) == ParsedReport(
        kind=kind,  # type: ignore[arg-type]
        origin="webhook",
        upstream_user="2002",
        upstream_media="8181",
        media_kind="video",
        device_id="plex-player-9",
        position_ms=1_800_000,
        duration_ms=5_400_000,
        played=True if kind == "finish" else None,
    )


def test_play_of_something_new_has_no_position() -> None:
    payload = plex("media.play")
    assert report(payload | {"Metadata": without(payload["Metadata"], "viewOffset")}).position_ms is None


def test_play_that_comes_late_after_its_scrobble_is_told_as_it_is() -> None:
    assert report(plex("media.play")).kind == "start"


def test_times_of_the_item_are_not_the_event_s_time() -> None:
    assert report(changed("media.play", "Metadata", lastViewedAt=1_500_000_000)).occurred_at is None


def test_somebody_else_s_play_is_theirs_not_the_owner_s() -> None:
    payload = changed("media.play", "Account", id=3003) | {"user": False, "owner": True}
    assert report(payload).upstream_user == "3003"


def test_missing_account_id_is_rejected_not_replaced_by_a_title() -> None:
    assert reason(multipart(plex("media.play", Account={"title": "mira"}))) == "missing_user"
    assert reason(multipart(without(plex("media.play"), "Account"))) == "missing_user"


def test_keys_that_differ_only_in_case_stay_apart() -> None:
    result = one(multipart(plex("library.new")))
    assert result == Observation(
        change="added",
        upstream_media="8181",
        name="The Tin Kite",
        item_kind="movie",
        provider_ids={"plex": "movie/aabbccddeeff001122334455", "imdb": "tt9900112", "tmdb": "99001"},
    )


def test_pre_roll_without_guid_list_is_read() -> None:
    payload = plex("media.play")
    clip = without(payload["Metadata"], "Guid", "guid", "Rating") | {"type": "clip"}
    assert report(payload | {"Metadata": clip}).media_kind == "video"


def test_guids_of_old_agents_become_provider_ids() -> None:
    item = {"ratingKey": 5, "type": "movie", "guid": "com.plexapp.agents.imdb://tt42?lang=en"}
    result = one(multipart(plex("library.new", Metadata=item)))
    assert isinstance(result, Observation)
    assert (result.upstream_media, result.provider_ids) == ("5", {"imdb": "tt42"})


def test_local_guids_are_no_provider_ids() -> None:
    item = {"ratingKey": "5", "type": "movie", "guid": "local://5"}
    result = one(multipart(plex("library.new", Metadata=item)))
    assert isinstance(result, Observation)
    assert result.provider_ids == {}


def test_on_deck_tells_of_a_new_item() -> None:
    assert isinstance(one(multipart(plex("library.on.deck"))), Observation)


@pytest.mark.parametrize("event", ["media.rate", "device.new", "admin.database.backup", "admin.database.corrupted"])
def test_events_without_news_are_ignored(event: str) -> None:
    assert reason(multipart(plex(event, rating="8.0"))) == "no_news"


def test_unknown_event_is_ignored() -> None:
    assert reason(multipart(plex("media.juggle"))) == "unknown_event"


@pytest.mark.parametrize(("kind", "expected"), [("track", "music"), ("episode", "video"), ("photo", None)])
def test_media_kind_follows_the_type(kind: str, expected: str | None) -> None:
    assert report(changed("media.play", "Metadata", type=kind)).media_kind == expected


def test_live_television_is_live() -> None:
    assert report(changed("media.play", "Metadata", live="1")).media_kind == "live"


@pytest.mark.parametrize("kind", ["show", "season", "artist", "album", "collection", "playlist"])
def test_whole_shows_and_albums_are_containers(kind: str) -> None:
    assert reason(multipart(changed("media.scrobble", "Metadata", type=kind))) == "container"


def test_payload_without_event_is_rejected() -> None:
    assert reason(multipart(without(plex("media.play"), "event"))) == "no_event"


def test_missing_item_is_rejected() -> None:
    assert reason(multipart(without(plex("library.new"), "Metadata"))) == "missing_media"
    assert reason(multipart(without(plex("media.play"), "Metadata"))) == "missing_media"


def test_negative_or_unreadable_offset_is_rejected() -> None:
    assert reason(multipart(changed("media.stop", "Metadata", viewOffset="far"))) == "invalid_position"
    assert reason(multipart(changed("media.stop", "Metadata", viewOffset=-1))) == "invalid_position"


def test_poster_before_the_payload_is_skipped() -> None:
    assert isinstance(one(multipart(plex("media.stop"), thumb_first=True)), ParsedReport)


def test_bare_line_feeds_are_read() -> None:
    assert isinstance(one(multipart(plex("media.stop"), eol=b"\n", thumb_first=True)), ParsedReport)


def test_json_and_form_bodies_are_read() -> None:
    assert isinstance(one(encoded(plex("media.stop"))), ParsedReport)
    assert isinstance(one(form("payload", plex("media.stop"))), ParsedReport)


def test_payload_cut_off_is_rejected() -> None:
    assert reason(multipart(plex("media.stop"))[:300]) == "bad_multipart"


def test_poster_cut_off_after_the_payload_costs_no_report() -> None:
    assert isinstance(one(multipart(plex("media.stop"), close=False)), ParsedReport)


def test_file_named_payload_is_not_the_payload() -> None:
    body = multipart(plex("media.stop")).replace(b'name="payload"', b'name="payload"; filename="x.json"')
    assert reason(body) == "no_payload"


def test_part_of_another_name_is_not_the_payload() -> None:
    assert reason(multipart(plex("media.stop")).replace(b'"payload"', b'"other"')) == "no_payload"


def test_more_than_eight_parts_are_not_searched() -> None:
    part = b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\nv\r\n'
    last = b'--b\r\nContent-Disposition: form-data; name="payload"\r\n\r\n' + json.dumps(plex("media.stop")).encode()
    assert reason(part * 8 + last + b"\r\n--b--\r\n") == "too_many_parts"
    assert isinstance(one(part * 7 + last + b"\r\n--b--\r\n"), ParsedReport)


def test_body_over_1_mib_is_rejected() -> None:
    assert reason(multipart(plex("media.stop")) + b"x" * 1024 * 1024) == "too_large"
