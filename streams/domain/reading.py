"""From a JSON value to a `Report`: types only; what the values may be is rule 0 (`report.problem`).

Readings: an empty text is an absent one. A bool is no number. A float is an integer when it is integral; a
duration or a listening time with a fraction is cut. Fields nobody knows are left alone. A duration beyond 64
bits is unknown; a listening time beyond them is read as the largest one, which the rules find implausible.
"""

from __future__ import annotations

from streams.domain.limits import INT64_MAX, INT64_MIN
from streams.domain.report import Rejected, Report, problem, text_problem
from streams.domain.timekeeping import in_milliseconds, parse_time
from streams.domain.words import Reason


class _Refused(Exception):
    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.rejected = Rejected(reason, detail)


def read_report(value: object, *, previous_received_at: int | None = None) -> Report | Rejected:
    """The report a JSON value states, or why it is none.

    Without received_at it is the later of occurred_at and `previous_received_at` (epoch ms); with neither
    the report is rejected `no_time`. A Report returned here has no `problem`.
    """
    if not isinstance(value, dict):
        return Rejected(Reason.NOT_AN_OBJECT, "a report is a JSON object")
    try:
        report = _read(value, previous_received_at)
    except _Refused as refused:
        return _with_event_id(refused.rejected, value)
    found = problem(report)
    return report if found is None else _with_event_id(found, value)


def received_at_of(value: object) -> int | None:
    """The received_at (epoch ms) a JSON value states, when it states a readable one."""
    stated = parse_time(value.get("received_at")) if isinstance(value, dict) else None
    return None if stated is None else in_milliseconds(stated)[0]


def _with_event_id(rejected: Rejected, value: dict[object, object]) -> Rejected:
    """The sender recognises its report by its own event_id, unless that is what is wrong."""
    stated = value.get("event_id")
    if isinstance(stated, str) and stated and text_problem("event_id", stated) is None:
        return Rejected(rejected.reason, rejected.detail, stated)
    return rejected


def _read(value: dict[object, object], previous_received_at: int | None) -> Report:
    kind = value.get("kind")
    if not isinstance(kind, str):
        raise _Refused(Reason.UNKNOWN_KIND, "kind is missing or not a text")
    user = _text(value, "user")
    if user is None:
        raise _Refused(Reason.MISSING_USER, "user is missing")
    media = _text(value, "media") or _text(value, "upstream_media")
    if media is None:
        raise _Refused(Reason.MISSING_MEDIA, "media and upstream_media are missing")
    occurred_at = _time(value, "occurred_at")
    received_at = _time(value, "received_at")
    if received_at is None:
        occurred_ms = None if occurred_at is None else in_milliseconds(occurred_at)[0]
        known = [time for time in (occurred_ms, previous_received_at) if time is not None]
        if not known:
            raise _Refused(Reason.NO_TIME, "neither received_at nor occurred_at, and no line before")
        received_at = max(known)
    duration_ms = _number(value, "duration_ms", cut=True)
    listened_ms = _number(value, "listened_ms", cut=True)
    return Report(
        kind=kind,
        user=user,
        media=media,
        received_at=received_at,
        source=_text(value, "source") or "",
        event_id=_text(value, "event_id"),
        media_kind=_text(value, "media_kind"),
        session_id=_text(value, "session_id"),
        device_id=_text(value, "device_id"),
        sequence=_number(value, "sequence"),
        position_ms=_position(value),
        duration_ms=duration_ms if duration_ms is not None and 0 < duration_ms <= INT64_MAX else None,
        occurred_at=occurred_at,
        automated=_flag(value, "automated") or False,
        failed=_flag(value, "failed") or False,
        played=_flag(value, "played"),
        listened_ms=None if listened_ms is None else max(INT64_MIN, min(listened_ms, INT64_MAX)),
        origin=_text(value, "origin") or "client",
        logged_at=_time(value, "logged_at"),
    )


def _text(value: dict[object, object], name: str) -> str | None:
    stated = value.get(name)
    if stated is None or stated == "":
        return None
    if not isinstance(stated, str):
        raise _Refused(Reason.INVALID_FIELD, f"{name} is not a text")
    return stated


def _flag(value: dict[object, object], name: str) -> bool | None:
    stated = value.get(name)
    if stated is None or isinstance(stated, bool):
        return stated
    raise _Refused(Reason.INVALID_FIELD, f"{name} is neither true nor false")


def _time(value: dict[object, object], name: str) -> int | None:
    stated = value.get(name)
    if stated is None or stated == "":
        return None
    time = parse_time(stated)
    if time is None:
        raise _Refused(Reason.INVALID_FIELD, f"{name} is neither epoch ms nor RFC 3339")
    return time


def _position(value: dict[object, object]) -> int | None:
    stated = value.get("position_ms")
    number = None if stated is None else _whole(stated, cut=False)
    if stated is not None and number is None:
        raise _Refused(Reason.INVALID_POSITION, "position_ms is not an integer")
    return number


def _number(value: dict[object, object], name: str, *, cut: bool = False) -> int | None:
    stated = value.get(name)
    number = None if stated is None else _whole(stated, cut=cut)
    if stated is not None and number is None:
        raise _Refused(Reason.INVALID_FIELD, f"{name} is not an integer")
    return number


def _whole(stated: object, *, cut: bool) -> int | None:
    """The integer a JSON number is, or None."""
    if isinstance(stated, bool):
        return None
    if isinstance(stated, int):
        return stated
    if isinstance(stated, float) and abs(stated) != float("inf") and stated == stated:  # not NaN
        return int(stated) if cut or stated.is_integer() else None
    return None
