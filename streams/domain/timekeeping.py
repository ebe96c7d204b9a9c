"""When a report happened, as far as clocks can be believed.

Client clocks are bounded by the receive time, the receive time by the log's append time. No time here ever
becomes a version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from streams.domain.limits import (
    CLOCK_AHEAD_MS,
    INT64_MAX,
    INT64_MIN,
    PLAUSIBLE_FROM_MS,
    SECOND_MS,
    SECONDS_FROM,
    SECONDS_TO,
)
from streams.domain.report import Report
from streams.domain.words import Note, Origin

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,20}))?(?:([Zz])|([+-])(\d\d):?(\d\d))?",
    re.ASCII,
)
_ZONE_MATTERS_FROM = 2000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Times:
    """`event_time`: when it counts as having happened. `latest`: the newest time a state may hold now."""

    event_time: int
    logged_at: int
    notes: tuple[Note, ...]

    @property
    def latest(self) -> int:
        return self.logged_at + CLOCK_AHEAD_MS

    def repaired(self, time: int) -> int:
        """A time of the state, brought back when it lies beyond `latest`: some server's clock was wrong."""
        return time if time <= self.latest else min(self.logged_at, self.event_time)


def times_of(report: Report) -> Times:
    """The event time by the rules, with notes on what was not believed."""
    notes: list[Note] = []
    received_at, received_in_seconds = in_milliseconds(report.received_at)
    logged_at, logged_in_seconds = received_at, False
    if report.logged_at is not None:
        logged_at, logged_in_seconds = in_milliseconds(report.logged_at)
    occurred_at, occurred_in_seconds = report.occurred_at, False
    if occurred_at is not None:
        occurred_at, occurred_in_seconds = in_milliseconds(occurred_at)
    if received_in_seconds or logged_in_seconds or occurred_in_seconds:
        notes.append(Note.TIME_IN_SECONDS)
    if received_at > logged_at + CLOCK_AHEAD_MS:
        received_at = logged_at
        notes.append(Note.CLOCK_REPAIRED)
    if report.origin == Origin.WEBHOOK:
        event_time = received_at
    elif occurred_at is None or occurred_at < PLAUSIBLE_FROM_MS:
        event_time = received_at
        notes.append(Note.CLOCK_IMPLAUSIBLE)
    elif occurred_at > received_at + CLOCK_AHEAD_MS:
        event_time = received_at
        notes.append(Note.CLOCK_AHEAD)
    else:
        event_time = occurred_at
    return Times(event_time, logged_at, tuple(notes))


def in_milliseconds(number: int) -> tuple[int, bool]:
    """(epoch ms, whether it was plainly seconds)."""
    if SECONDS_FROM <= number <= SECONDS_TO:
        return number * SECOND_MS, True
    return number, False


def parse_time(value: object) -> int | None:
    """A time as JSON states it: epoch ms as a number (seconds stay what they are), or RFC 3339 text.

    Fractions of a millisecond are cut. None when the value is no time; a date without a zone is none, unless it
    is before 2000 (media servers write the year 1 for "never"), where a zone would make no difference.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return None
        value = int(value)
    if isinstance(value, int):
        # Beyond 64 bits it is as implausible, or as far ahead, as the last time that fits.
        return max(INT64_MIN, min(value, INT64_MAX))
    if isinstance(value, str):
        return _parse_rfc3339(value)
    return None


def _parse_rfc3339(text: str) -> int | None:
    match = _RFC3339.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, utc, sign, zone_hours, zone_minutes = match.groups()[6:]
    if utc is None and sign is None and year >= _ZONE_MATTERS_FROM:
        return None
    leap = second == 60
    try:
        zone: timezone = UTC
        if sign is not None:
            offset = timedelta(hours=int(zone_hours), minutes=int(zone_minutes))
            zone = timezone(-offset if sign == "-" else offset)
        moment = datetime(year, month, day, hour, minute, 59 if leap else second, tzinfo=zone)
    except ValueError:
        return None
    # A leap second has no place of its own in epoch time: it is the second after it.
    millis = (moment - _EPOCH) // _MILLISECOND + (SECOND_MS if leap else 0)
    return millis + int((fraction or "0")[:3].ljust(3, "0"))
