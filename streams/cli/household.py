"""The demo's household: what three people's devices send in an evening, good reports and bad ones alike.

Pure data: a list of scenes, each a sentence for the reader and the requests that act it out. Times are
relative to ``now_ms`` so that the evening has always just happened. All names and values are invented.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR

FILM = 110 * MINUTE
EPISODE = 44 * MINUTE
BOOK = 10 * HOUR
SONG = 4 * MINUTE

TITLES: Mapping[str, str] = {
    "paper-lantern": "The Paper Lantern (film)",
    "harbour-lights-2x05": "Harbour Lights 2x05",
    "field-of-glass": "A Field of Glass (film)",
    "long-tide": "The Long Tide (audiobook)",
    "slow-rivers": "Slow Rivers (song)",
    "a1b2c3d4e5f60718293a4b5c6d7e8f90": "Night Ferry 1x03",
}
JELLYFIN_USER = "3f1c0d5e8a2b4c6d9e0f112233445566"
PEOPLE: Mapping[str, tuple[str, str]] = {
    # display name: (source, the source's name for the person)
    "Ana": ("home", "ana"),
    "Ben": ("home", "ben"),
    "Cleo": ("jelly", JELLYFIN_USER),
}


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request: to ``/v1/playback`` of the source's token, or to the source's Jellyfin webhook."""

    source: str
    body: bytes
    hook: str | None = None
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Scene:
    says: str
    requests: tuple[Request, ...] = field(default=())


def scenes(now_ms: int) -> Iterator[Scene]:
    """The evening, in the order in which the requests arrive."""
    yield from _ana(now_ms - 3 * HOUR)
    yield from _ben(now_ms - 2 * HOUR)
    yield from _rewatch(now_ms)
    yield from _offline_phone(now_ms)
    yield _jellyfin(now_ms)
    yield _nonsense(now_ms)


def _ana(start: int) -> Iterator[Scene]:
    def tv(sequence: int, kind: str, minute: int, **more: Any) -> dict[str, Any]:
        return {
            "event_id": f"tv-17:s1:{sequence}",
            "user": "ana",
            "media": "paper-lantern",
            "media_kind": "video",
            "session_id": "s1",
            "device_id": "tv-17",
            "sequence": sequence,
            "kind": kind,
            "position_ms": minute * MINUTE,
            "duration_ms": FILM,
            "occurred_at": start + minute * MINUTE,
            **more,
        }

    watched = [tv(1, "start", 0)] + [tv(n + 1, "progress", n * 5) for n in range(1, 9)]
    yield Scene("Ana watches a film on the television.", tuple(_native("home", r) for r in watched))
    yield Scene(
        "The television's connection is bad: it sends some reports twice, and two in the wrong order.",
        (
            *(_native("home", r) for r in watched[3:7]),
            _native("home", tv(11, "progress", 50)),
            _native("home", tv(10, "progress", 45)),
            _native("home", tv(12, "pause", 52)),
        ),
    )
    phone = {
        "user": "ana",
        "media": "paper-lantern",
        "media_kind": "video",
        "session_id": "p1",
        "device_id": "phone-3",
        "duration_ms": FILM,
    }
    yield Scene(
        "Her phone opens the film at the beginning by itself and is put away again: no intent, nothing moves.",
        (
            _native(
                "home",
                {**phone, "event_id": "p1:1", "kind": "start", "position_ms": 0, "occurred_at": start + 90 * MINUTE},
            ),
            _native(
                "home",
                {
                    **phone,
                    "event_id": "p1:2",
                    "kind": "progress",
                    "position_ms": 8_000,
                    "occurred_at": start + 90 * MINUTE + 8_000,
                },
            ),
            _native(
                "home",
                {
                    **phone,
                    "event_id": "p1:3",
                    "kind": "stop",
                    "position_ms": 9_000,
                    "occurred_at": start + 90 * MINUTE + 9_000,
                },
            ),
        ),
    )


def _ben(start: int) -> Iterator[Scene]:
    def tablet(sequence: int, kind: str, position: int, after: int) -> dict[str, Any]:
        return {
            "event_id": f"tab:{sequence}",
            "user": "ben",
            "media": "harbour-lights-2x05",
            "media_kind": "video",
            "session_id": "b1",
            "device_id": "tablet-2",
            "sequence": sequence,
            "kind": kind,
            "position_ms": position,
            "duration_ms": EPISODE,
            "occurred_at": start + after,
        }

    yield Scene(
        "Ben falls asleep over an episode and rewinds twenty minutes: the position goes back, because he meant it.",
        (
            _native("home", tablet(1, "start", 0, 0)),
            _native("home", tablet(2, "progress", 15 * MINUTE, 15 * MINUTE)),
            _native("home", tablet(3, "progress", 30 * MINUTE, 30 * MINUTE)),
            _native("home", tablet(4, "seek", 10 * MINUTE, 31 * MINUTE)),
            _native("home", tablet(5, "progress", 14 * MINUTE, 35 * MINUTE)),
            _native("home", tablet(6, "pause", 15 * MINUTE, 36 * MINUTE)),
        ),
    )
    song = {
        "user": "ben",
        "media": "slow-rivers",
        "media_kind": "music",
        "session_id": "m1",
        "device_id": "speaker",
        "duration_ms": SONG,
    }
    yield Scene(
        "He plays a song; half of it counts as a play, once.",
        tuple(
            _native(
                "home",
                {
                    **song,
                    "event_id": f"song:{second}",
                    "kind": "progress",
                    "position_ms": second * 1_000,
                    "occurred_at": start + 50 * MINUTE + second * 1_000,
                },
            )
            for second in (30, 121, 150, 239)
        ),
    )


def _rewatch(now: int) -> Iterator[Scene]:
    def film(session: str, n: int, kind: str, position: int, at: int) -> dict[str, Any]:
        return {
            "event_id": f"glass:{session}:{n}",
            "user": "ana",
            "media": "field-of-glass",
            "media_kind": "video",
            "session_id": session,
            "device_id": "tv-17",
            "kind": kind,
            "position_ms": position,
            "duration_ms": FILM,
            "occurred_at": at,
        }

    first, second = now - 7 * DAY, now - DAY
    yield Scene(
        "Last week Ana finished another film; yesterday she watched it again. Two plays, not one and not five.",
        (
            _native("home", film("w1", 1, "progress", 60 * MINUTE, first)),
            _native("home", film("w1", 2, "finish", FILM, first + 50 * MINUTE)),
            _native("home", film("w1", 3, "stop", FILM, first + 51 * MINUTE)),
            _native("home", film("w2", 1, "start", 0, second)),
            *(_native("home", film("w2", 1 + n, "progress", n * 10_000, second + n * 10_000)) for n in range(1, 6)),
            _native("home", film("w2", 8, "progress", 80 * MINUTE, second + 80 * MINUTE)),
            _native("home", film("w2", 9, "finish", FILM, second + FILM)),
        ),
    )


def _offline_phone(now: int) -> Iterator[Scene]:
    start = now - 10 * HOUR
    book = [
        {
            "event_id": f"train:{n}",
            "user": "ben",
            "media": "long-tide",
            "media_kind": "audiobook",
            "session_id": "train",
            "device_id": "phone-9",
            "sequence": n,
            "kind": "progress" if n < 9 else "stop",
            "position_ms": 2 * HOUR + n * 5 * MINUTE,
            "duration_ms": BOOK,
            "listened_ms": n * 5 * MINUTE,
            "occurred_at": start + n * 5 * MINUTE,
        }
        for n in range(1, 10)
    ]
    late = {
        "event_id": "train:film",
        "user": "ana",
        "media": "paper-lantern",
        "media_kind": "video",
        "session_id": "train-film",
        "device_id": "phone-3",
        "kind": "progress",
        "position_ms": 70 * MINUTE,
        "duration_ms": FILM,
        "occurred_at": now - 8 * HOUR,
    }
    yield Scene(
        "Two phones were offline on a train this morning and send everything now, shuffled and twice: the audiobook "
        "moves on, the old film position is kept as a conflict to choose from.",
        (_batch("home", [*book[4:], *book[:4], book[2], late]), _batch("home", book[2:5])),
    )


def _jellyfin(now: int) -> Scene:
    # The webhook plugin's two ways of writing one event: true JSON types, and its template mode where
    # everything is a string (jellyfin/jellyfin-plugin-webhook, Destinations/Generic).
    common = {
        "ServerId": "9c8b7a6d5e4f40312213141516171819",
        "ServerName": "shelf",
        "ServerVersion": "10.11.2",
        "UtcTimestamp": datetime.fromtimestamp(now / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.0000000Z"),
        "Name": "Night Ferry",
        "SeriesName": "Harbour Lights",
        "ItemType": "Episode",
        "DeviceName": "Lounge",
        "ClientName": "Jellyfin Web",
        "NotificationUsername": "cleo",
        "DeviceId": "dev-77aa",
    }

    def typed(event: str, minutes: float, **more: Any) -> Request:
        return _hook(
            {
                **common,
                "NotificationType": event,
                "ItemId": "a1b2c3d4e5f60718293a4b5c6d7e8f90",
                "UserId": JELLYFIN_USER,
                "RunTimeTicks": EPISODE * 10_000,
                "PlaybackPositionTicks": int(minutes * MINUTE * 10_000),
                "IsPaused": False,
                "IsAutomated": False,
                **more,
            },
            "application/json",
        )

    def template(event: str, minutes: float, **more: Any) -> Request:
        return _hook(
            {
                **common,
                "NotificationType": event,
                "ItemId": "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90",
                "UserId": "3f1c0d5e-8a2b-4c6d-9e0f-112233445566",
                "RunTimeTicks": str(EPISODE * 10_000),
                "PlaybackPositionTicks": str(int(minutes * MINUTE * 10_000)),
                "IsPaused": "False",
                "IsAutomated": "False",
                **more,
            },
            "text/plain; charset=utf-8",
        )

    return Scene(
        "Cleo watches on a Jellyfin server; its webhooks arrive in both of the plugin's spellings.",
        (
            typed("PlaybackStart", 0),
            typed("PlaybackProgress", 5),
            template("PlaybackProgress", 12.5),
            typed("PlaybackProgress", 12, IsAutomated=True),
            template("PlaybackStop", 21, PlayedToCompletion="False"),
            typed("GenericUpdateNotification", 0),
        ),
    )


def _nonsense(now: int) -> Scene:
    base = {"user": "ana", "media": "paper-lantern", "session_id": "s1", "device_id": "tv-17", "occurred_at": now}
    return Scene(
        "And some devices send nonsense: it is refused with a reason and harms nobody.",
        (
            _batch(
                "home",
                [
                    {**base, "kind": "progress", "position_ms": -5},
                    {**base, "kind": "completed", "position_ms": 5},
                    {**base, "kind": "progress"},
                    {
                        **base,
                        "event_id": "far",
                        "kind": "progress",
                        "position_ms": 300 * HOUR,
                        "duration_ms": FILM,
                        "media_kind": "video",
                    },
                ],
            ),
        ),
    )


def _native(source: str, report: Mapping[str, Any]) -> Request:
    return Request(source, json.dumps(report).encode())


def _batch(source: str, reports: list[dict[str, Any]]) -> Request:
    return Request(source, json.dumps({"reports": reports}).encode())


def _hook(payload: Mapping[str, Any], content_type: str) -> Request:
    return Request("jelly", json.dumps(payload).encode(), hook="jellyfin", content_type=content_type)
