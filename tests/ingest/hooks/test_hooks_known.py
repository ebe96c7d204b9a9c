"""Fields and events that no parser knows: tolerated, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams.ingest.hooks import FORMATS, Census, parse
from streams.ingest.hooks.known import NAMES_MAX
from streams.runtime import metrics
from tests.ingest.fakes import World, progress
from tests.ingest.hooks import payloads
from tests.ingest.hooks.payloads import JsonObject, answer, call, encoded, multipart

EXAMPLES = Path(__file__).parents[2] / "examples" / "parse"
NEW = {"MoonPhase": 3, "moon_phase": {"a": [1]}}
LISTEN = payloads.listen()


def listened(**extra: Any) -> bytes:
    return encoded({"listen_type": "single", "payload": [LISTEN | extra]})


BODIES: dict[str, tuple[bytes, bytes]] = {
    "jellyfin": (encoded(payloads.jellyfin("PlaybackStop")), encoded(payloads.jellyfin("PlaybackStop", **NEW))),
    "plex": (multipart(payloads.plex("media.stop")), multipart(payloads.plex("media.stop", **NEW))),
    "emby": (encoded(payloads.emby("playback.stop")), encoded(payloads.emby("playback.stop", **NEW))),
    "audiobookshelf": (encoded(payloads.session()), encoded({"sessions": [payloads.session(**NEW)]})),
    "listenbrainz": (listened(), listened(**NEW)),
    "subsonic": (
        call("scrobble", "id=1&time=1777890600000"),
        call("scrobble", "id=1&time=1777890600000&MoonPhase=3&moon_phase=x"),
    ),
    "native": (encoded(progress()), encoded({"reports": [progress(**NEW)]})),
}


def unknown(format: str, body: bytes) -> Census:
    census = Census()
    parse(format, body, census=census)
    return census


@pytest.mark.parametrize("format", FORMATS)
def test_unknown_fields_change_no_result_and_are_counted(format: str) -> None:
    plain, extended = BODIES[format]
    assert parse(format, plain) == parse(format, extended)
    assert (unknown(format, plain).unknown, unknown(format, plain).names) == (0, set())
    assert (unknown(format, extended).unknown, unknown(format, extended).names) == (2, set(NEW))


@pytest.mark.parametrize(
    "path",
    sorted(path for path in EXAMPLES.glob("*/*") if not path.name.endswith(".expect.json")),
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_what_servers_are_known_to_send_is_known(path: Path) -> None:
    assert unknown(path.parent.name, path.read_bytes()).names == set()


def test_fields_inside_what_is_read_are_counted_too() -> None:
    payload = payloads.emby("playback.stop")
    playback: JsonObject = payload["PlaybackInfo"] | {"Mood": "calm"}
    assert unknown("emby", encoded(payload | {"PlaybackInfo": playback})).names == {"Mood"}


def test_what_describes_an_item_is_not_counted() -> None:
    payload = payloads.emby("playback.stop")
    item: JsonObject = payload["Item"] | {"Mood": "calm"}
    assert unknown("emby", encoded(payload | {"Item": item})).unknown == 0


def test_a_field_for_each_stream_and_provider_is_known() -> None:
    fields = {"Audio_0_Codec": "aac", "Subtitle_12_Title": "en", "Video_0_Height": 1080, "Provider_anidb": "7"}
    assert unknown("jellyfin", encoded(payloads.jellyfin("PlaybackStart", **fields))).unknown == 0


def test_answers_of_servers_are_looked_at_where_they_tell_of_positions() -> None:
    queue = {"current": "1", "username": "u", "entry": [{"id": "1", "anything": 1}], "moonPhase": 1}
    assert unknown("subsonic", answer(playQueue=queue)).names == {"moonPhase"}


def test_names_that_are_no_plain_words_are_counted_and_not_kept() -> None:
    odd: JsonObject = {"\x1b[31m": 1, "a b": 1, "n" * 65: 1, "": 1}
    census = unknown("jellyfin", encoded(payloads.jellyfin("PlaybackStop", **odd)))
    assert (census.unknown, census.names) == (4, set())


def test_only_so_many_names_are_kept() -> None:
    many: JsonObject = {f"f{n}": n for n in range(500)}
    census = unknown("jellyfin", encoded(payloads.jellyfin("PlaybackStop", **many)))
    assert (census.unknown, len(census.names)) == (500, NAMES_MAX)


def counted(read: Callable[[], float], act: Callable[[], object]) -> float:
    before = read()
    act()
    return read() - before


@pytest.mark.parametrize("format", ["jellyfin", "plex", "emby", "audiobookshelf"])
def test_the_door_counts_unknown_fields_by_format(format: str) -> None:
    world = World()
    body = BODIES[format][1]

    def send() -> None:
        response = asyncio.run(world.post(f"/hooks/{format}/{world.jelly}", content=body))
        assert response.status_code == 202

    assert counted(lambda: metrics.UNKNOWN_FIELDS.labels(format)._value.get(), send) == 2


@pytest.mark.parametrize(
    ("format", "body"),
    [
        ("jellyfin", payloads.jellyfin("MoonRisen")),
        ("jellyfin", payloads.nested("MoonRisen")),
        ("plex", payloads.plex("moon.risen")),
        ("emby", payloads.emby("moon.risen")),
        ("audiobookshelf", {"event": "moon_risen", "data": {}}),
    ],
)
def test_the_door_takes_and_counts_events_nobody_knows(format: str, body: JsonObject) -> None:
    world = World()

    def send() -> None:
        response = asyncio.run(world.post(f"/hooks/{format}/{world.jelly}", content=encoded(body)))
        assert response.status_code == 200

    assert counted(lambda: metrics.HOOKS_IGNORED.labels(format, "unknown_event")._value.get(), send) == 1
