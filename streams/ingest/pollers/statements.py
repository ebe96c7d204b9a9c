"""What a poll reads, as statements to be compared with what was seen last; and what follows from the difference.

Everything here is pure. A statement's event id is made of all that the server told, so the same statement makes the
same report however often it is read and whatever was forgotten in between.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from streams.ingest.hooks import ParsedReport
from streams.runtime.polls import Key, Seen

PLAYING: Final = "playing"
"""The list of what plays now: it alone is compared as a whole, for what is missing in it has stopped."""
JUMP_MS: Final = 10_000
"""A moving position that is further than this from where it should be by now was moved by somebody."""


class EventIds:
    """Ids of reports that nobody can read a name from: keyed hashes of what was told. 32 hex digits."""

    def __init__(self, hash_key: bytes, source_id: str) -> None:
        self._hash_key = hash_key
        self._source_id = source_id

    def of(self, key: Key, *told: object) -> str:
        parts = ("poll", self._source_id, key.user, key.facet, key.item, *("" if p is None else f"={p}" for p in told))
        return hmac.new(self._hash_key, "\0".join(parts).encode(), hashlib.sha256).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Standing:
    """Something that stands in the server's database: a bookmark, a progress, a session, an entry of a history."""

    key: Key
    report: ParsedReport


@dataclass(frozen=True, slots=True)
class Counted:
    """How often something was played, and when last. ``report``: of that last play, with its time.

    ``apart_ms``: plays can't be closer together; two told closer are one that was counted twice.
    """

    key: Key
    count: int
    report: ParsedReport
    apart_ms: int = 0


@dataclass(frozen=True, slots=True)
class Playing:
    """What a player does now. ``checked_in``: when the player itself last spoke, epoch ms, where the server tells.

    ``read_at``: epoch ms by the clock that the position runs by. A report that is ``automated`` has a position that
    moves by itself. ``began_at``: about when it began, where no position tells.
    """

    key: Key
    report: ParsedReport
    read_at: int
    checked_in: int | None = None
    began_at: int | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """A player that plays no more what it was seen to play. ``position_ms``: what the server kept, when it says."""

    key: Key
    position_ms: int | None = None


Statement: TypeAlias = Standing | Counted | Playing | Stopped


@dataclass(frozen=True, slots=True)
class Step:
    """The reports that follow, in order, and what is seen from now on (None: nothing, forget it)."""

    reports: tuple[ParsedReport, ...]
    seen: Seen | None


def step(statement: Statement, before: Seen | None, ids: EventIds) -> Step:
    """What a statement adds to what was seen ``before`` in its place. The same statement again adds nothing."""
    match statement:
        case Standing():
            return _standing(statement, before, ids)
        case Counted():
            return _counted(statement, before, ids)
        case Playing():
            return _playing(statement, before, ids)
        case Stopped():
            reports = () if before is None else (_stop(statement.key, before, ids, statement.position_ms),)
            return Step(reports, None)
        case _:
            assert_never(statement)


def _standing(statement: Standing, before: Seen | None, ids: EventIds) -> Step:
    report = statement.report
    event_id = ids.of(statement.key, *_content(report))
    if before is not None and before.get("id") == event_id:
        return Step((), before)
    return Step((_told(report, event_id),), {"id": event_id})


def _counted(statement: Counted, before: Seen | None, ids: EventIds) -> Step:
    """A count that fell is an older database: no play. One that rose while the time did not is a play that happened
    before the last one: told with that time, which the rules find late."""
    played_at = statement.report.occurred_at or 0
    seen: Seen = {"count": statement.count, "at": played_at}
    if before is not None:
        count, last = _whole(before, "count"), _whole(before, "at")
        if statement.count <= count and played_at <= last:
            return Step((), seen)
        if 0 < played_at - last < statement.apart_ms:
            return Step((), {"count": statement.count, "at": last})
    event_id = ids.of(statement.key, played_at, statement.count)
    return Step((_told(statement.report, event_id),), seen)


def _playing(statement: Playing, before: Seen | None, ids: EventIds) -> Step:
    report = statement.report
    moves = report.automated and report.position_ms is not None
    began_at = statement.read_at - (report.position_ms or 0) if moves else statement.began_at
    if statement.checked_in is not None:
        discriminator = f"in:{statement.checked_in}"
    elif began_at is not None:
        # To the minute: what a moving position is found to be depends on when one looks.
        discriminator = f"began:{round(began_at / 60_000)}"
    else:
        discriminator = f"at:{report.position_ms}"
    event_id = ids.of(statement.key, report.upstream_media, report.kind, discriminator)
    seen: Seen = {
        "id": event_id,
        "media": report.upstream_media,
        "media_kind": report.media_kind,
        "device": report.device_id,
        "kind": report.kind,
        "at": report.position_ms,
        "read": statement.read_at,
    }
    if before is None:
        return Step((_told(report, event_id),), seen)
    if before.get("media") != report.upstream_media:
        return Step((_stop(statement.key, before, ids, None), _told(report, event_id)), seen)
    if before.get("id") == event_id or (statement.checked_in is None and _goes_on(statement, before)):
        return Step((), before)
    return Step((_told(report, event_id),), seen)


def _goes_on(statement: Playing, before: Seen) -> bool:
    """Whether nothing happened: a standing position still stands, a moving one is where it was going."""
    report = statement.report
    at, read = before.get("at"), before.get("read")
    if before.get("kind") != report.kind:
        return False
    if not report.automated or not isinstance(at, int) or not isinstance(read, int) or report.position_ms is None:
        return bool(at == report.position_ms)
    return abs(at + statement.read_at - read - report.position_ms) <= JUMP_MS


def _stop(key: Key, before: Seen, ids: EventIds, position_ms: int | None) -> ParsedReport:
    """The end of what was seen playing. A position behind the player's last word is an older database's: left out."""
    at = before.get("at")
    if position_ms is not None and isinstance(at, int) and position_ms < at:
        position_ms = None
    media, device = before.get("media"), before.get("device")
    return ParsedReport(
        kind="stop",
        origin="poll",
        event_id=ids.of(key, "stop", before.get("id"), position_ms),
        upstream_user=key.user,
        upstream_media=str(media),
        media_kind=before.get("media_kind"),
        device_id=None if device is None else str(device),
        position_ms=position_ms,
    )


def _content(report: ParsedReport) -> tuple[object, ...]:
    return (
        report.upstream_media,
        report.kind,
        report.session_id,
        report.position_ms,
        report.occurred_at,
        report.played,
        report.listened_ms,
    )


def _told(report: ParsedReport, event_id: str) -> ParsedReport:
    return replace(report, event_id=event_id, origin="poll")


def _whole(seen: Seen, name: str) -> int:
    value = seen.get(name)
    return value if isinstance(value, int) else 0
