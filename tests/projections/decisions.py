"""Decisions as a playback agent could make them, and a plain in-memory fold to hold the read models against.

The fold is written from the promises of the read models, not from their SQL: newest state per key, one row for
each position, every turn and the first progress of a minute. It sees the records in the order of the log.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from schemas.events import Conflict, Pending, PlaybackDecided, SourcePosition
from schemas.placement import partition_of, playback_key

NOW_MS = 1_796_069_700_000
REPORTED_TOPIC_ID = "cmVwb3J0ZWQtdG9waWMtaWQ"


def decision(**changes: Any) -> PlaybackDecided:
    """An accepted progress report at half an hour of a film; ``changes`` replace fields."""
    user = changes.get("user_ref", "0" * 31 + "1")
    plain = PlaybackDecided(
        event_id="e-1",
        correlation_id="c-1",
        source_id="home",
        occurred_at=NOW_MS - 200,
        received_at=NOW_MS - 100,
        user_ref=user,
        media_id="m" * 32,
        cause=SourcePosition(REPORTED_TOPIC_ID, partition_of(user.encode()), 0, 0),
        verdict="accepted",
        kind="progress",
        origin="client",
        report_session_id="s-1",
        report_device_id="tv",
        report_position_ms=1_800_000,
        report_event_time=NOW_MS - 200,
        logged_at=NOW_MS,
        position_moved=True,
        media_kind="video",
        epoch=1,
        epoch_started_at=None,
        phase="playing",
        position_ms=1_800_000,
        resume_position_ms=1_800_000,
        duration_ms=6_600_000,
        played=False,
        play_count=0,
        listened_ms=0,
        event_time=NOW_MS - 200,
        session_id="s-1",
        device_id="tv",
    )
    return replace(plain, **changes)


def key_of(event: PlaybackDecided) -> bytes:
    return playback_key(event.user_ref, event.media_id)


def partition_for(event: PlaybackDecided) -> int:
    return partition_of(event.user_ref.encode())


@dataclass
class Household:
    """A seeded source of decisions in which everything the read models tell apart happens."""

    seed: int
    users: int = 6
    media: int = 5
    now_ms: int = NOW_MS
    _states: dict[tuple[str, str], PlaybackDecided] = field(default_factory=dict)
    _offsets: dict[int, int] = field(default_factory=dict)
    _made: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._users = [f"{self._random.getrandbits(128):032x}" for _ in range(self.users)]
        self._media = [f"{self._random.getrandbits(128):032x}" for _ in range(self.media)]
        self._now = self.now_ms

    def decisions(self, count: int) -> list[PlaybackDecided]:
        return [self._next() for _ in range(count)]

    def _next(self) -> PlaybackDecided:
        dice = self._random
        user, media = dice.choice(self._users), dice.choice(self._media)
        self._now += dice.choice((50, 400, 7_000))
        self._made += 1
        state = self._states.get((user, media))
        partition = partition_of(user.encode())
        offset = self._offsets.get(partition, -1) + 1
        self._offsets[partition] = offset
        device = dice.choice(("tv", "phone", None))
        base = state or decision(user_ref=user, media_id=media)
        verdict = dice.choices(("accepted", "pending", "duplicate", "late", "ignored"), weights=(70, 5, 8, 8, 9))[0]
        kind = dice.choices(
            ("progress", "start", "pause", "stop", "seek", "finish", "mark_played"), weights=(70, 5, 8, 6, 5, 3, 3)
        )[0]
        event = replace(
            base,
            event_id=f"e-{self._made}" if verdict != "duplicate" else base.event_id,
            correlation_id=f"c-{self._made}",
            source_id=dice.choice(("home", "flat")),
            occurred_at=dice.choice((None, self._now - 200)),
            received_at=self._now - 100,
            cause=SourcePosition(REPORTED_TOPIC_ID, partition, offset, 0),
            verdict=verdict,
            reason=None if verdict == "accepted" else f"why_{verdict}",
            notes=dice.choice(((), ("clamped",), ("tie", 'odd "text", {braces}\\'))),
            kind=kind,
            report_session_id=f"s-{device}" if device else None,
            report_device_id=device,
            report_position_ms=dice.choice((None, dice.randrange(6_000_000))),
            report_event_time=self._now - dice.choice((200, 90_000)),
            logged_at=self._now,
            position_moved=False,
            play_counted=False,
            play_epoch=None,
            listened_added_ms=0,
        )
        if verdict in ("accepted", "late"):
            added = dice.choice((0, 0, 10_000))
            counted = kind in ("finish", "mark_played")
            event = replace(
                event,
                listened_added_ms=added,
                listened_ms=event.listened_ms + added,
                play_counted=counted,
                play_epoch=event.epoch if counted else None,
                play_count=event.play_count + counted,
                played=event.played or counted,
                last_played_at=event.report_event_time if counted else event.last_played_at,
            )
        if verdict == "accepted":
            position = event.report_position_ms or event.position_ms
            finished = kind in ("finish", "mark_played")
            event = replace(
                event,
                position_moved=True,
                position_ms=position,
                phase="finished" if finished else "paused" if kind == "pause" else "playing",
                resume_position_ms=None if finished or position < 60_000 else position,
                event_time=event.report_event_time,
                session_id=event.report_session_id,
                device_id=device,
                epoch=event.epoch + (dice.random() < 0.05),
                pending=None,
                conflict=dice.choice((None, Conflict("phone", "s-phone", position + 1, self._now))),
            )
        elif verdict == "pending":
            event = replace(event, pending=Pending("s-phone", "phone", 0, 20_000, self._now))
        if verdict != "duplicate":
            self._states[user, media] = event
        return event


Rows = dict[str, dict[tuple[Any, ...], dict[str, Any]]]


@dataclass(frozen=True)
class Placed:
    """A decision at its place in playback.decided."""

    event: PlaybackDecided
    partition: int
    offset: int
    log_epoch: int = 1


def placed(events: Iterable[PlaybackDecided], log_epoch: int = 1) -> list[Placed]:
    """Where a log without holes puts them."""
    ends: dict[int, int] = {}
    found = []
    for event in events:
        partition = partition_for(event)
        ends[partition] = ends.get(partition, -1) + 1
        found.append(Placed(event, partition, ends[partition], log_epoch))
    return found


def fold(log: Iterable[Placed]) -> Rows:
    """The rows of every table after ``log``, by primary key."""
    rows: Rows = {
        name: {}
        for name in (
            "playback_progress",
            "user_versions",
            "progress_history",
            "plays",
            "listening_time",
            "processed_events",
        )
    }
    minutes: set[tuple[Any, ...]] = set()
    for item in log:
        event = item.event
        cause = (event.cause.topic_id, event.cause.partition, event.cause.offset, event.cause.index)
        version = {"partition": item.partition, "log_epoch": item.log_epoch, "version": item.offset}
        rows["processed_events"].setdefault(cause, {**_named(event, _PROCESSED), **version})
        if event.verdict in ("duplicate", "rejected"):
            continue
        _state(rows, event, version)
        if event.play_counted:
            rows["plays"].setdefault(cause, {**_named(event, _PLAY), "epoch": event.play_epoch, **version})
        if event.listened_added_ms:
            rows["listening_time"].setdefault(cause, {"added_ms": event.listened_added_ms, **version})
        if event.kind == "progress" and not event.play_counted:
            minute = (
                event.user_ref, event.media_id, event.source_id, event.report_session_id, event.report_device_id,
                event.verdict, event.epoch, event.phase, event.report_event_time // 60_000,
            )  # fmt: skip
            if event.verdict == "ignored" or minute in minutes:
                continue
            minutes.add(minute)
        rows["progress_history"].setdefault(cause, {**_named(event, _HISTORY), **version})
    return rows


def _state(rows: Rows, event: PlaybackDecided, version: dict[str, int]) -> None:
    key = (event.user_ref, event.media_id)
    before = rows["playback_progress"].get(key, {})
    moved = (
        (event.event_id, event.report_event_time, event.report_device_id)
        if event.position_moved
        else tuple(before.get(name) for name in _SOURCE)
    )
    rows["playback_progress"][key] = {
        **_named(event, _STATE),
        "pending": event.pending and asdict(event.pending),
        "conflict": event.conflict and asdict(event.conflict),
        "updated_ms": event.logged_at,
        **dict(zip(_SOURCE, moved, strict=True)),
        **version,
    }
    rows["user_versions"][(event.user_ref,)] = version


def _named(event: PlaybackDecided, names: dict[str, str]) -> dict[str, Any]:
    found = {column: getattr(event, name) for column, name in names.items()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def _columns(plain: str, **renamed: str) -> dict[str, str]:
    return {name: name for name in plain.split()} | renamed


_SOURCE = ("source_event_id", "source_event_time", "source_device_id")
_STATE = _columns(
    "media_kind epoch epoch_started_at phase position_ms resume_position_ms duration_ms played play_count "
    "last_played_at listened_ms event_time session_id device_id joined correlation_id"
)
_HISTORY = _columns(
    "user_ref media_id event_id source_id kind origin verdict reason notes report_position_ms occurred_at logged_at "
    "position_moved play_counted epoch phase position_ms correlation_id",
    session_id="report_session_id",
    device_id="report_device_id",
    event_time="report_event_time",
)
_PLAY = _columns(
    "user_ref media_id event_id source_id media_kind logged_at correlation_id",
    session_id="report_session_id",
    device_id="report_device_id",
    event_time="report_event_time",
)
_PROCESSED = _columns(
    "event_id source_id user_ref media_id kind origin verdict reason notes report_position_ms position_ms occurred_at "
    "received_at logged_at correlation_id",
    event_time="report_event_time",
)

PRIMARY_KEYS = {
    "playback_progress": ("user_ref", "media_id"),
    "user_versions": ("user_ref",),
    **dict.fromkeys(
        ("progress_history", "plays", "listening_time", "processed_events"),
        ("cause_topic_id", "cause_partition", "cause_offset", "cause_index"),
    ),
}


def chunks(items: list[Placed], sizes: Iterator[int]) -> Iterator[list[Placed]]:
    """``items`` in batches of these sizes."""
    start = 0
    while start < len(items):
        size = next(sizes)
        yield items[start : start + size]
        start += size
