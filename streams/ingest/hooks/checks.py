"""Limits of the door and the gate each report passes (rule 0 of the playback rules).

`Refuse` is how a parser stops working on one record: it carries the reason and the detail of the
Rejected that the record becomes. It never leaves this package.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, ParamSpec

from streams.ingest.hooks.result import Kind, ParsedReport, Rejected, Result

P = ParamSpec("P")

BODY_MAX_BYTES: Final = 1024 * 1024
JSON_DEPTH_MAX: Final = 32
REPORTS_MAX: Final = 1_000
ID_MAX_BYTES: Final = 256
TEXT_MAX_BYTES: Final = 1024
PROVIDER_IDS_MAX: Final = 32
POSITION_MAX_MS: Final = 30 * 24 * 3600 * 1000
WHOLE_MAX: Final = 2**63 - 1  # the log stores 64-bit numbers

# A time in this range of numbers is meant as seconds (2000 to 2100); as ms it would lie in early 1970.
SECONDS_FROM: Final = 946_684_800
SECONDS_TO: Final = 4_102_444_800

NEEDS_POSITION: Final[frozenset[Kind]] = frozenset({"progress", "seek", "set_position"})

_EVENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._ -]{0,63}")


class Refuse(Exception):
    """This record can't be used; becomes Rejected(reason, detail)."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def guarded(parse: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Run a parser of one record; a Refuse becomes its Rejected, so that neighbours are unharmed."""
    try:
        return parse(*args, **kwargs)
    except Refuse as refusal:
        return Rejected(refusal.reason, refusal.detail)


def accept(report: ParsedReport) -> ParsedReport:
    """The report itself when it can be used; raises Refuse with the reason when it can't.

    ListenBrainz takes the user from the token, so the user is not asked for here.
    """
    if report.media is None and report.upstream_media is None:
        raise Refuse("no_media", "the payload names no item")
    if report.position_ms is None:
        if report.kind in NEEDS_POSITION:
            raise Refuse("no_position", f"a {report.kind} report needs a position")
    elif report.position_ms < 0:
        raise Refuse("bad_position", "the position is negative")
    elif report.position_ms > POSITION_MAX_MS:
        raise Refuse("bad_position", "the position is beyond 30 days")
    return report


def seconds_to_ms(value: int) -> int:
    """A time given as a number in epoch ms; numbers that are plainly seconds are taken as such."""
    return value * 1000 if SECONDS_FROM <= value <= SECONDS_TO else value


def known_duration(duration_ms: int | None) -> int | None:
    """Zero and below mean unknown, and so does what no 64-bit number holds."""
    return duration_ms if duration_ms is not None and 0 < duration_ms <= WHOLE_MAX else None


def event_name(name: str | None) -> str:
    """An event's name for a detail text, when it looks like one; else a placeholder."""
    return name if name is not None and _EVENT_NAME.fullmatch(name) else "(not a plain name)"
