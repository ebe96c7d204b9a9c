"""The rules of the library: one record in, what it changes on the shelf, and what is to be told about it.

Pure, total for values that ``validity`` lets pass, deterministic: the same records in the same order give the same
rows and outputs. Observations and commands come from two topics: offsets of sightings are those of observations.
"""

from __future__ import annotations

from typing import assert_never

from schemas.library import (
    Command,
    FinalizeContinued,
    ItemObserved,
    ItemRemovalObserved,
    ItemStatusRequested,
    MetadataRefreshRequested,
    Observation,
    PathSkipped,
    ReconcileRequested,
    ScanCancelled,
    ScanConfirmed,
    ScanFailed,
    ScanListed,
    ScanRequested,
    ScanStarted,
)
from streams.domain.library import ending, removals, scans, sightings, skips, statuses, validity, words
from streams.domain.library.case import Case
from streams.domain.library.outputs import At, Output
from streams.domain.library.shelf import Shelf


def apply(shelf: Shelf, event: Observation | Command, at: At) -> list[Output]:
    """What ``event``, which lies ``at`` there, brings about. Raises Invalid, before any change, when it can't be."""
    validity.hold(event)
    case = Case(shelf, event.source_id, event.received_at, at)
    match event:
        case ItemObserved():
            sightings.observe(case, event)
        case PathSkipped():
            skips.skip(case, event)
        case ScanStarted():
            scans.start(case, event)
        case ScanListed():
            ending.listed(case, event)
        case FinalizeContinued(step=words.RESTORE):
            removals.go_on(case, event)
        case FinalizeContinued():
            ending.go_on(case, event)
        case ScanFailed():
            scans.fail(case, event)
        case ItemRemovalObserved():
            removals.remove(case, event)
        case ScanRequested():
            scans.requested(case, event)
        case ScanConfirmed():
            ending.confirm(case, event)
        case ScanCancelled():
            scans.cancel(case, event)
        case ItemStatusRequested():
            statuses.ask(case, event)
        case MetadataRefreshRequested() | ReconcileRequested():
            pass  # for workers
        case _:
            assert_never(event)
    return case.close()
