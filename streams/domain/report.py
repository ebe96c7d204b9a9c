"""A report as the rules take it, and rule 0: what is not one.

`Report` may be made by anyone (a parser, the log, a test), so `decide` checks it again by `problem`: the
rules never raise, whatever they are given. From JSON it is made by `streams.domain.reading`.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.limits import ID_BYTES_MAX
from streams.domain.identity import derived_event_id
from streams.domain.limits import INT64_MAX, INT64_MIN, POSITION_MS_MAX
from streams.domain.words import KINDS, MEDIA_KINDS, NEED_POSITION, ORIGINS, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One statement of a device or server. Positions and durations in ms, times in epoch ms.

    `media` is the key's media: ours, or the upstream id when only that is known. `source` is "" when the
    sender has none. An optional text that is absent is None, never "".
    """

    kind: str
    user: str
    media: str
    received_at: int
    source: str = ""
    event_id: str | None = None
    media_kind: str | None = None
    session_id: str | None = None
    device_id: str | None = None
    sequence: int | None = None
    position_ms: int | None = None
    duration_ms: int | None = None
    occurred_at: int | None = None
    automated: bool = False
    failed: bool = False
    played: bool | None = None
    listened_ms: int | None = None
    origin: str = "client"
    logged_at: int | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """Not a report. `detail` is one sentence for people and quotes nothing but field names and numbers."""

    reason: Reason
    detail: str
    event_id: str | None = None


def event_id_of(report: Report) -> str | None:
    """The report's own event id, else the derived one, else None."""
    if report.event_id is not None:
        return report.event_id
    return derived_event_id(
        source=report.source,
        user=report.user,
        media=report.media,
        session_id=report.session_id,
        device_id=report.device_id,
        sequence=report.sequence,
        kind=report.kind,
        position_ms=report.position_ms,
        occurred_at=report.occurred_at,
    )


def problem(report: Report) -> Rejected | None:
    """Rule 0 but for `beyond_duration`: why this is no valid report, or None."""
    if report.kind not in KINDS:
        return Rejected(Reason.UNKNOWN_KIND, "kind is missing or not a known one")
    if not report.user.strip():
        return Rejected(Reason.MISSING_USER, "user is missing")
    if not report.media.strip():
        return Rejected(Reason.MISSING_MEDIA, "media is missing")
    for name, text in (
        ("user", report.user),
        ("media", report.media),
        ("source", report.source),
        ("event_id", report.event_id),
        ("session_id", report.session_id),
        ("device_id", report.device_id),
    ):
        if text is not None:
            found = text_problem(name, text)
            if found is not None:
                return found
    if report.media_kind is not None and report.media_kind not in MEDIA_KINDS:
        return Rejected(Reason.INVALID_FIELD, "media_kind is not a known one")
    if report.origin not in ORIGINS:
        return Rejected(Reason.INVALID_FIELD, "origin is not a known one")
    return _position_problem(report) or _number_problem(report)


def text_problem(name: str, text: str) -> Rejected | None:
    """Why this text cannot be an id: NUL, a lone surrogate, or more than 256 bytes of UTF-8."""
    if "\0" in text:
        return Rejected(Reason.INVALID_TEXT, f"{name} holds NUL")
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        return Rejected(Reason.INVALID_TEXT, f"{name} holds a lone surrogate")
    if size > ID_BYTES_MAX:
        return Rejected(Reason.ID_TOO_LONG, f"{name} is over {ID_BYTES_MAX} bytes")
    return None


def _position_problem(report: Report) -> Rejected | None:
    position = report.position_ms
    if position is None:
        if report.kind in NEED_POSITION:
            return Rejected(Reason.MISSING_POSITION, f"{KINDS[report.kind].value} needs position_ms")
        return None
    if position < 0:
        return Rejected(Reason.INVALID_POSITION, "position_ms is negative")
    if position > POSITION_MS_MAX:
        return Rejected(Reason.POSITION_TOO_LARGE, "position_ms is over 30 days")
    return None


def _number_problem(report: Report) -> Rejected | None:
    """Everything kept must fit the log's 64-bit numbers."""
    for name, number in (
        ("sequence", report.sequence),
        ("duration_ms", report.duration_ms),
        ("listened_ms", report.listened_ms),
        ("occurred_at", report.occurred_at),
        ("received_at", report.received_at),
        ("logged_at", report.logged_at),
    ):
        if number is not None and not INT64_MIN <= number <= INT64_MAX:
            return Rejected(Reason.INVALID_FIELD, f"{name} does not fit 64 bits")
    return None
