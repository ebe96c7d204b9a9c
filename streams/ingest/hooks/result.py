"""What a parser hands back: a closed union of four frozen dataclasses.

A report and an observation are what a server or device stated, in Playhead's words and units; nothing
is decided here. Ignored means understood and of no interest; Rejected means it could not be used.
Neither quotes the input beyond harmless event names: inputs carry tokens, addresses and names of people.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias, assert_never

Kind: TypeAlias = Literal[
    "start",
    "progress",
    "pause",
    "resume",
    "seek",
    "stop",
    "finish",
    "mark_played",
    "mark_unplayed",
    "set_position",
    "clear_position",
]
MediaKind: TypeAlias = Literal["video", "music", "audiobook", "podcast", "live"]
Origin: TypeAlias = Literal["client", "webhook", "poll", "import", "command", "reconcile", "echo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReport:
    """One statement about playback, in the field names of a report.

    Positions and durations are whole ms, times epoch ms. None means the sender did not say; a duration
    that was zero or negative is None, for it says as little. Every id is at most 256 bytes and every
    position lies within 0 and 30 days (`checks.accept` is the gate). `user` and `media` are only set by
    the native format; the others know the server's own ids, `upstream_user` and `upstream_media`.
    """

    event_id: str | None = None
    source: str | None = None
    user: str | None = None
    media: str | None = None
    upstream_user: str | None = None
    upstream_media: str | None = None
    media_kind: MediaKind | None = None
    session_id: str | None = None
    device_id: str | None = None
    sequence: int | None = None
    kind: Kind
    position_ms: int | None = None
    duration_ms: int | None = None
    occurred_at: int | None = None
    received_at: int | None = None
    automated: bool | None = None
    failed: bool | None = None
    played: bool | None = None
    listened_ms: int | None = None
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen(ParsedReport):
    """A play of music told afterwards, in one statement: a finish, and `played`.

    It began at the track's beginning, at `occurred_at` or that much before; `streams.ingest.listens` tells what
    follows from that. It is printed like any report.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A server said that an item appeared or went away.

    `item_kind` is the server's own word in lower case (movie, episode, series …); `provider_ids` maps
    lower-case provider names to ids. `name` is display text of at most 1 KiB.
    """

    change: Literal["added", "removed"]
    upstream_media: str
    name: str | None = None
    item_kind: str | None = None
    provider_ids: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ignored:
    """Understood, and nothing to do: no playback or library news, or an echo of news already told."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """Not usable. `reason` is a stable word for programs, `detail` one sentence for people."""

    reason: str
    detail: str


Result: TypeAlias = ParsedReport | Observation | Ignored | Rejected


def as_json(result: Result) -> dict[str, object]:
    """The object that `playhead parse` prints for a result; all fields present, absent ones null."""
    match result:
        case ParsedReport():
            return {"type": "report", **asdict(result)}
        case Observation():
            return {"type": "observation", **asdict(result)}
        case Ignored():
            return {"type": "ignored", **asdict(result)}
        case Rejected():
            return {"type": "rejected", **asdict(result)}
        case _:
            assert_never(result)
