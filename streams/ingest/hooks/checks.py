"""The gate each report passes (rule 0 of the playback rules), and the way out for what does not.

`Refuse` is how a parser stops working on one record: it carries the reason and the detail of the
Rejected that the record becomes. It never leaves this package.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from streams.domain.limits import POSITION_MS_MAX
from streams.domain.words import NEED_POSITION
from streams.ingest.hooks.result import ParsedReport, Rejected, Result

P = ParamSpec("P")
Report = TypeVar("Report", bound=ParsedReport)

PROVIDER_IDS_MAX: Final = 32

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


def accept(report: Report) -> Report:
    """The report itself when it can be used; raises Refuse with the reason when it can't.

    ListenBrainz takes the user from the token, so the user is not asked for here.
    """
    if report.media is None and report.upstream_media is None:
        raise Refuse("missing_media", "the payload names no item")
    if report.position_ms is None:
        if report.kind in NEED_POSITION:
            raise Refuse("missing_position", f"a {report.kind} report needs a position")
    elif report.position_ms < 0:
        raise Refuse("invalid_position", "the position is negative")
    elif report.position_ms > POSITION_MS_MAX:
        raise Refuse("position_too_large", "the position is over 30 days")
    return report


def event_name(name: str | None) -> str:
    """An event's name for a detail text, when it looks like one; else a placeholder."""
    return name if name is not None and _EVENT_NAME.fullmatch(name) else "(not a plain name)"
