"""What a record of the library must be, beyond its schema. A breach is poison: a dead letter, never a decision."""

from __future__ import annotations

from schemas.library import (
    Command,
    FinalizeContinued,
    ItemObserved,
    ItemRemovalObserved,
    ItemStatusRequested,
    Observation,
    PathSkipped,
    ScanListed,
)
from streams.domain.library.invalid import Invalid
from streams.domain.library.keys import SEPARATOR
from streams.domain.library.locators import check
from streams.domain.library.words import HOW, RESTORE, SKIPPED, Status, Step

_ASKED = (Status.ARCHIVED, Status.DELETED)


def hold(event: Observation | Command) -> None:
    """Return when the values can be. Raises Invalid."""
    if not event.source_id or SEPARATOR in event.source_id:
        raise Invalid("not the id of a source")
    match event:
        case ItemObserved():
            _item(event)
        case PathSkipped():
            if event.reason not in SKIPPED:
                raise Invalid("an unknown reason to skip")
            if event.path:
                check(event.path, file=True)
            _ordinal(event.ordinal)
        case ScanListed():
            _ordinal(event.observations)
        case ItemRemovalObserved():
            if not event.upstream_id:
                raise Invalid("no upstream id")
        case ItemStatusRequested():
            if event.status not in _ASKED:
                raise Invalid("a status that cannot be asked for")
        case FinalizeContinued():
            if event.step != RESTORE and event.step not in {step.value for step in Step}:
                raise Invalid("an unknown step")
        case _:
            pass


def _item(event: ItemObserved) -> None:
    if event.how not in HOW:
        raise Invalid("an unknown way of seeing")
    if event.generation is not None:
        _ordinal(event.ordinal)
    if event.upstream_id is None and event.locator is None:
        raise Invalid("neither an upstream id nor a path")
    if event.upstream_id == "":
        raise Invalid("an empty upstream id")
    if event.locator is None:
        return
    check(event.locator.path, file=event.upstream_id is None)
    if not event.locator.path and event.upstream_id is None:
        raise Invalid("an empty path")
    if event.locator.size is not None and event.locator.size < 0:
        raise Invalid("a negative size")


def _ordinal(number: int) -> None:
    if number < 0:
        raise Invalid("a negative number of an observation")
