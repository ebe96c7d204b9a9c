"""PathSkipped: a scan did not look there, so what is there is not known."""

from __future__ import annotations

from enum import StrEnum

from schemas.library import PathSkipped
from streams.domain.library import keys
from streams.domain.library.case import Case
from streams.domain.library.locators import above
from streams.domain.library.places import top_is_left
from streams.domain.library.rows import Skip
from streams.domain.library.scans import counts


class Reason(StrEnum):
    UNREADABLE = "unreadable"
    IGNORED = "ignored"


def skip(case: Case, event: PathSkipped) -> None:
    """An entry of the root that is known and cannot be read is left all the same."""
    if not counts(case, event.generation, event.ordinal):
        return
    case.put(keys.SKIP + event.path, Skip(case.at.offset, event.folder, event.reason))
    if top_is_left(case, event.path):
        case.count(kept=1)


def reason_for(case: Case, path: bytes) -> Reason | None:
    """Why the newest scan did not look at ``path``, or at a folder above it. Unreadable goes before ignored."""
    found: Reason | None = None
    for part in above(path):
        row = case.skip(part)
        if row is not None and (row.folder or part == path):
            if row.reason == Reason.UNREADABLE:
                return Reason.UNREADABLE
            found = Reason.IGNORED
    return found
