"""The events as Python sees them: one frozen dataclass for each Avro record, same names, same order.

Times are epoch milliseconds, positions and durations whole milliseconds. The ``.avsc`` files beside this
module are the contract; a test holds both to each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, get_args

from schemas import library
from schemas.position import SourcePosition


@dataclass(frozen=True, slots=True)
class Pending:
    """A run that has not yet shown intent to move the position back."""

    session_id: str | None
    device_id: str | None
    from_position_ms: int
    position_ms: int
    event_time: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """A late position that is further than the stored one, kept for the person to choose."""

    device_id: str | None
    session_id: str | None
    position_ms: int
    event_time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybackReported:
    """What a device or server said, as accepted at the door. May be late, repeated or wrong."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    user_ref: str
    media_id: str
    upstream_media: str | None = None
    media_kind: str | None = None
    session_id: str | None = None
    device_id: str | None = None
    sequence: int | None = None
    kind: str
    position_ms: int | None = None
    duration_ms: int | None = None
    automated: bool = False
    failed: bool = False
    played: bool | None = None
    listened_ms: int | None = None
    origin: str = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybackDecided:
    """What Playhead made of a report: verdict and reason, and the whole shown state after it."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    user_ref: str
    media_id: str
    cause: SourcePosition
    verdict: str
    reason: str | None = None
    notes: tuple[str, ...] = ()
    kind: str
    origin: str
    report_session_id: str | None = None
    report_device_id: str | None = None
    report_position_ms: int | None = None
    report_event_time: int
    logged_at: int
    position_moved: bool = False
    play_counted: bool = False
    play_epoch: int | None = None
    listened_added_ms: int = 0
    media_kind: str
    epoch: int
    epoch_started_at: int | None = None
    phase: str
    position_ms: int
    resume_position_ms: int | None = None
    duration_ms: int | None = None
    played: bool
    play_count: int
    last_played_at: int | None = None
    listened_ms: int
    event_time: int
    session_id: str | None = None
    device_id: str | None = None
    pending: Pending | None = None
    conflict: Conflict | None = None
    joined: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserForgotten:
    """A person is to be forgotten (``cause`` None: it is asked for), or the agent has done its part (``cause``: the
    record that asked). Keyed and placed by ``user_ref`` alone."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    user_ref: str
    cause: SourcePosition | None = None


WHOLE_MODEL: Final = "model"
"""The cache key that means everything: another read model is live."""
MERGED: Final = "merged"
"""The reason with which no version moves: another row is shown under the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheInvalidated:
    """What is stale, with the version a fresh copy has at least: (model_epoch, log_epoch, version)."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    cache_key: str
    model_epoch: int
    log_epoch: int
    partition: int
    version: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A record nobody could process: where it was, its bytes as they were, and why it failed."""

    event_id: str
    correlation_id: str
    source_id: str
    occurred_at: int | None = None
    received_at: int
    topic: str
    topic_id: str
    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None
    schema_id: int | None = None
    cause_class: str
    error_class: str
    error_text: str
    consumer: str
    attempts: int
    failed_at: int


Event = (
    PlaybackReported
    | PlaybackDecided
    | UserForgotten
    | CacheInvalidated
    | DeadLetter
    | library.Command
    | library.Observation
    | library.Change
)

EVENTS: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}

__all__ = [
    "EVENTS",
    "CacheInvalidated",
    "Conflict",
    "DeadLetter",
    "Event",
    "Pending",
    "PlaybackDecided",
    "PlaybackReported",
    "SourcePosition",
    "UserForgotten",
]
