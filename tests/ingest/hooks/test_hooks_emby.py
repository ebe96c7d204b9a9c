"""Emby: each event in its 4.8 and 4.9 wrappings, and each trap known of its payloads."""

from __future__ import annotations

import pytest

from streams.ingest.hooks import Ignored, Observation, ParsedReport, Rejected, Result, parse
from tests.ingest.hooks.payloads import (
    JELLYFIN_USER,
    SECRETS,
    JsonObject,
    emby,
    encoded,
    form,
    multipart,
    without,
)


def one(body: bytes) -> Result:
    (result,) = parse("emby", body)
    assert not [secret for secret in SECRETS if secret in repr(result)]
    return result


def report(payload: JsonObject) -> ParsedReport:
    result = one(encoded(payload))
    assert isinstance(result, ParsedReport), result
    return result


def reason(payload: JsonObject) -> str:
    result = one(encoded(payload))
    assert isinstance(result, Ignored | Rejected), result
    return result.reason


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ("playback.start", "start"),
        ("playback.progress", "progress"),
        ("playback.pause", "pause"),
        ("playback.unpause", "resume"),
        ("playback.stop", "stop"),
        ("playback.scrobble", "finish"),
    ],
)
def test_playback_events_are_reports(event: str, kind: str) -> None:
    assert report(emby(event)) == ParsedReport(
        kind=kind,  # type: ignore[arg-type]
        origin="webhook",
        upstream_user=JELLYFIN_USER,
        upstream_media="33115",
        media_kind="video",
        session_id="emby-session-1",
        device_id="emby-tv",
        position_ms=1_800_000,
        duration_ms=5_400_000,
        occurred_at=1_777_890_600_765,
        played=True if kind == "finish" else None,
    )


@pytest.mark.parametrize("body", [form("data", emby("playback.pause")), encoded(emby("playback.pause"))])
def test_urlencoded_form_and_json_are_read_alike(body: bytes) -> None:
    assert one(body) == report(emby("playback.pause"))


def test_multipart_form_is_read_like_json() -> None:
    body = multipart(emby("playback.pause")).replace(b'"payload"', b'"data"')
    assert one(body) == report(emby("playback.pause"))


def test_form_without_data_is_rejected() -> None:
    result = one(b"other=1")
    assert isinstance(result, Rejected)
    assert result.reason == "no_payload"


def test_stop_claims_completion_when_the_server_does() -> None:
    stopped = emby("playback.stop", PlaybackInfo={"PositionTicks": "53000000000", "PlayedToCompletion": "True"})
    assert (report(stopped).position_ms, report(stopped).played) == (5_300_000, True)


def test_user_block_can_be_missing_unless_limited_to_users() -> None:
    assert reason(without(emby("playback.start"), "User")) == "missing_user"


@pytest.mark.parametrize(
    ("event", "kind"), [("item.markplayed", "mark_played"), ("item.markunplayed", "mark_unplayed")]
)
def test_marks_are_commands_without_position(event: str, kind: str) -> None:
    command = report(without(emby(event), "Session"))
    assert (command.kind, command.position_ms) == (kind, None)


@pytest.mark.parametrize(("event", "change"), [("library.new", "added"), ("library.deleted", "removed")])
def test_library_news_are_observations(event: str, change: str) -> None:
    assert one(encoded(without(emby(event), "User"))) == Observation(
        change=change,  # type: ignore[arg-type]
        upstream_media="33115",
        name="The Tin Kite",
        item_kind="movie",
        provider_ids={"tmdb": "99001", "imdb": "tt9900112"},
    )


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (emby("system.notificationtest"), "no_news"),
        (emby("item.rate"), "no_news"),
        (emby("playback.wobble"), "unknown_event"),
        (without(emby("x"), "Event"), "no_event"),
        (emby("playback.start", Item={"Type": "Movie"}), "missing_media"),
        (emby("item.markplayed", Item={"Id": "9", "Type": "Series"}), "container"),
        (emby("playback.pause", PlaybackInfo={"PositionTicks": -1}), "invalid_position"),
    ],
)
def test_the_rest_does_nothing(payload: JsonObject, expected: str) -> None:
    assert reason(payload) == expected


def test_numeric_item_id_meets_its_text() -> None:
    payload = emby("playback.pause")
    assert report(payload | {"Item": payload["Item"] | {"Id": 33115}}) == report(payload)
