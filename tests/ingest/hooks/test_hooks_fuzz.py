"""No input raises, and what comes out can be printed: bytes, JSON trees and damaged golden payloads."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.limits import ID_BYTES_MAX, TEXT_BYTES_MAX
from streams.cli.parse import parse_lines
from streams.domain.limits import POSITION_MS_MAX
from streams.ingest.hooks import FORMATS
from tests.ingest.hooks import payloads
from tests.ingest.hooks.payloads import JsonObject, encoded

FUZZ = settings(
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
NATIVE: JsonObject = {
    "user": "mira",
    "media": "m-1",
    "kind": "progress",
    "position_ms": 1_000,
    "duration_ms": 9_000,
    "sequence": 1,
    "session_id": "s-1",
    "device_id": "d-1",
    "event_id": "e-1",
    "occurred_at": "2026-05-04T10:30:00Z",
    "media_kind": "music",
    "played": False,
    "listened_ms": 5,
    "origin": "client",
}
GOLDEN: dict[str, list[object]] = {
    "jellyfin": [
        payloads.jellyfin("PlaybackProgress"),
        payloads.jellyfin("PlaybackStop", PlayedToCompletion="True"),
        payloads.jellyfin("UserDataSaved", SaveReason="TogglePlayed", Played=True),
        payloads.jellyfin("ItemAdded"),
        payloads.nested("Stop"),
        payloads.nested("ItemAdded"),
    ],
    "plex": [payloads.plex("media.stop"), payloads.plex("library.new")],
    "emby": [payloads.emby("playback.stop"), payloads.emby("library.new")],
    "audiobookshelf": [
        payloads.session(),
        {"sessions": [payloads.session()], "deviceInfo": {"deviceId": "x"}},
        payloads.progress(),
        {"event": "user_item_progress_updated", "data": {"sessionId": "s", "data": payloads.progress()}},
        {"event": "user_updated", "data": {"mediaProgress": [payloads.progress()]}},
        {"event": "items_added", "data": [{"id": "i", "media": {"metadata": {"title": "t"}}}]},
    ],
    "listenbrainz": [
        {"listen_type": "single", "payload": [payloads.listen()]},
        {"listen_type": "playing_now", "payload": [payloads.listen()]},
    ],
    "subsonic": [
        {"subsonic-response": {"bookmarks": {"bookmark": [{"username": "u", "entry": {"id": "1"}}]}}},
        {"subsonic-response": {"nowPlaying": {"entry": [{"username": "u", "id": "1", "state": "playing"}]}}},
        {"subsonic-response": {"playQueue": {"current": "1", "username": "u", "entry": [{"id": "1"}]}}},
        {"subsonic-response": {"playQueueByIndex": {"currentIndex": 0, "username": "u", "entry": [{"id": "1"}]}}},
    ],
    "native": [NATIVE, {"reports": [NATIVE, NATIVE]}],
}
CALLS: list[tuple[str, dict[str, str]]] = [
    ("scrobble", {"id": "1", "time": "1777890600000", "submission": "true"}),
    ("reportPlayback", {"mediaId": "1", "positionMs": "5", "state": "playing", "mediaType": "song"}),
    ("savePlayQueue", {"id": "1", "current": "1", "position": "5"}),
    ("savePlayQueueByIndex", {"id": "1", "currentIndex": "0", "position": "5"}),
    ("createBookmark", {"id": "1", "position": "5"}),
    ("deleteBookmark", {"id": "1"}),
]

odd_numbers = st.sampled_from([0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 1.5, -0.0, 1e300, 1e18])
odd_text = st.sampled_from(
    [
        "",
        " ",
        "0",
        "True",
        "NaN",
        "1e400",
        "-5",
        "9" * 400,
        "\x00",
        "\ud800",
        "😀" * 300,
        "&#0;",
        "&#xD800;",
        "&#" + "9" * 5000,
        "a" * 257,
    ]
)
scalars = st.one_of(st.none(), st.booleans(), odd_numbers, odd_text, st.text(max_size=20), st.integers(), st.floats())
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.text(max_size=6), st.sampled_from(["id", "Id", "data", "entry"])), inner, max_size=3
        ),
    ),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn, golden: object) -> object:
    """A golden payload with some of its fields, at any depth, replaced or removed."""
    if draw(st.integers(0, 6)) == 0:
        return draw(values)
    if isinstance(golden, dict):
        return {name: draw(damaged(value)) for name, value in golden.items() if draw(st.integers(0, 9)) > 0}
    if isinstance(golden, list):
        return [draw(damaged(value)) for value in golden]
    return golden


def check(format: str, body: bytes) -> list[dict[str, Any]]:
    """What is printed holds what is promised for any input."""
    lines: list[dict[str, Any]] = [dict(line) for line in parse_lines(format, body)]
    for line in lines:
        json.dumps(line, allow_nan=False, ensure_ascii=False).encode()
        assert "\\u0000" not in json.dumps(line)
        if line["type"] == "report":
            assert line["position_ms"] is None or 0 <= line["position_ms"] <= POSITION_MS_MAX
            assert line["duration_ms"] is None or line["duration_ms"] > 0
            assert line["media"] or line["upstream_media"]
            for name in ("user", "media", "upstream_user", "upstream_media", "session_id", "device_id", "event_id"):
                assert len((line[name] or "").encode()) <= ID_BYTES_MAX
            for name in ("position_ms", "duration_ms", "occurred_at", "received_at", "sequence", "listened_ms"):
                assert line[name] is None or (type(line[name]) is int and abs(line[name]) < 2**63), name
        elif line["type"] == "observation":
            assert len((line["name"] or "").encode()) <= TEXT_BYTES_MAX
        else:
            assert line["reason"]
            assert line["detail"]
    return lines


@pytest.mark.parametrize("format", FORMATS)
@FUZZ
@given(st.data())
def test_any_bytes_give_results_and_no_error(format: str, data: st.DataObject) -> None:
    check(format, data.draw(st.binary(max_size=400)))


@pytest.mark.parametrize("format", FORMATS)
@FUZZ
@given(st.data())
def test_any_json_gives_results_and_no_error(format: str, data: st.DataObject) -> None:
    check(format, encoded(data.draw(values)))


@pytest.mark.parametrize("format", FORMATS)
@FUZZ
@given(st.data())
def test_damaged_payloads_give_results_and_no_error(format: str, data: st.DataObject) -> None:
    payload = data.draw(damaged(data.draw(st.sampled_from(GOLDEN[format]))))
    assert check(format, encoded(payload)) or format == "native"


@pytest.mark.parametrize("format", FORMATS)
@FUZZ
@given(st.data())
def test_cut_and_flipped_bytes_give_results_and_no_error(format: str, data: st.DataObject) -> None:
    payload = data.draw(st.sampled_from(GOLDEN[format]))
    body = bytearray(payloads.multipart(payload) if format in ("plex", "emby") else encoded(payload))
    for _ in range(data.draw(st.integers(0, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    check(format, bytes(body[: data.draw(st.integers(0, len(body)))]))


@FUZZ
@given(st.data())
def test_subsonic_calls_with_any_parameters_give_results_and_no_error(data: st.DataObject) -> None:
    method, parameters = data.draw(st.sampled_from(CALLS))
    wild = st.one_of(st.text(max_size=12), st.integers().map(str), st.just("9" * 400), st.just("a" * 300))
    changed = {
        name: data.draw(wild) if data.draw(st.integers(0, 4)) == 0 else value
        for name, value in {**parameters, "u": "mira", "c": "Probe"}.items()
    }
    repeated = [pair for pair in changed.items() for _ in range(data.draw(st.integers(0, 2)))]
    safe = [(name, value.encode(errors="replace")) for name, value in repeated]
    check("subsonic", f"/rest/{method}.view?{urlencode(safe)}".encode())


@FUZZ
@given(st.text(max_size=60), st.text(max_size=6))
def test_broken_jellyfin_templates_give_results_and_no_error(overview: str, year: str) -> None:
    template = payloads.JELLYFIN_TEMPLATE % (overview, year)
    lines = check("jellyfin", template.encode(errors="replace"))
    assert len(lines) == 1
