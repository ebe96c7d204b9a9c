"""The end of a scan, in bounded chunks: moves, copies, assess, missing, clean.

Each chunk is one record: the agent's own word to itself says where to go on, and is worth nothing when that is not
where the scan stands, so that a repeated one does nothing. A scan that is no longer the newest ends as superseded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from schemas.library import FinalizeContinued, ScanConfirmed, ScanListed
from streams.domain.library import gone, keys, moves
from streams.domain.library.case import Case
from streams.domain.library.limits import ROWS_READ_MAX, ROWS_WORKED_MAX, removals_max
from streams.domain.library.outputs import Continued, Hold
from streams.domain.library.rows import Row
from streams.domain.library.words import ScanStatus, Step, Why

_LEFT_OVER = (keys.PENDING, keys.MARKED, keys.HANDED, keys.SKIP, keys.SUSPECT, keys.REMOVED)
Work = Callable[[Case, bytes, Row], bool]


def listed(case: Case, event: ScanListed) -> None:
    """Only a listing that was complete and came here whole says anything about what was not in it."""
    scan = case.scan
    if scan is None or scan.generation != event.generation or scan.status != ScanStatus.RUNNING:
        return
    case.source = replace(case.source, scan=replace(scan, skipped=event.skipped))
    tally = case.tally
    if tally.lost or tally.next != event.observations:
        case.become(ScanStatus.INCOMPLETE, Why.OBSERVATIONS_LOST)
    elif not event.complete:
        case.become(ScanStatus.INCOMPLETE, Why.LISTING_INCOMPLETE)
    else:
        case.become(ScanStatus.FINALIZING)
        _go_on(case)


def confirm(case: Case, event: ScanConfirmed) -> None:
    """Check a held scan once more, and hold it no longer. A command lies in another topic than sightings, so the work
    itself is left to a record among them."""
    scan = case.scan
    if scan is None or scan.generation != event.generation or scan.status != ScanStatus.HELD:
        return
    case.source = replace(case.source, scan=replace(scan, confirmed=True, step=Step.ASSESS.value, cursor=b""))
    case.tally = replace(case.tally, missing=0, unreadable=0)
    case.become(ScanStatus.FINALIZING)
    case.outputs.append(Continued(scan.generation, Step.ASSESS.value, b""))


def go_on(case: Case, event: FinalizeContinued) -> None:
    scan = case.scan
    if scan is None or scan.status != ScanStatus.FINALIZING:
        return
    if (scan.generation, scan.step, scan.cursor) == (event.generation, event.step, event.cursor):
        _go_on(case)


def _go_on(case: Case) -> None:
    """Work until the record has had its share, the scan is held, or all is done."""
    read = worked = 0
    while case.source.scan is not None and case.source.scan.status == ScanStatus.FINALIZING:
        scan = case.source.scan
        if read >= ROWS_READ_MAX or worked >= ROWS_WORKED_MAX:
            case.outputs.append(Continued(scan.generation, scan.step, scan.cursor))
            return
        step = Step(scan.step)
        kinds, work = _PLAN[step]
        kind = scan.cursor[:1] or kinds[0]
        most = min(ROWS_READ_MAX - read, ROWS_WORKED_MAX - worked)
        found = case.rows(kind, scan.cursor or kind, most)
        for key, row in found:
            worked += work(case, key, row)
        read += max(1, len(found))
        if found and len(found) == most:
            _stand(case, step, found[-1][0])
        elif kind != kinds[-1]:
            _stand(case, step, kinds[kinds.index(kind) + 1])
        else:
            _end(case, step)


def _stand(case: Case, step: Step, cursor: bytes) -> None:
    scan = case.source.scan
    assert scan is not None
    case.source = replace(case.source, scan=replace(scan, step=step.value, cursor=cursor))


def _end(case: Case, step: Step) -> None:
    """A step is over."""
    match step:
        case Step.MOVES:
            _stand(case, Step.COPIES, b"")
        case Step.COPIES:
            _stand(case, Step.ASSESS, b"")
        case Step.ASSESS:
            _judge(case)
        case Step.MISSING:
            _stand(case, Step.CLEAN, b"")
        case Step.CLEAN:
            _finish(case)
        case _:
            assert_never(step)


def _judge(case: Case) -> None:
    """Hold what looks like a lost mount rather than like somebody's wish."""
    scan, tally = case.source.scan, case.tally
    assert scan is not None
    if tally.missing and not scan.confirmed:
        why = None
        if not tally.kept:
            why = Why.ROOT_CHANGED
        elif tally.missing > removals_max(scan.present_before):
            why = Why.MASS_REMOVAL
        if why is not None:
            case.become(ScanStatus.HELD, why)
            return
    anything = case.mark(keys.MARKED) is not None
    case.tally = replace(tally, missing=0)
    _stand(case, Step.MISSING if anything else Step.CLEAN, b"")


def _finish(case: Case) -> None:
    source = case.source
    assert source.scan is not None
    case.source = replace(source, finalized=source.scan.generation, held=False, removals=())
    if source.held:
        case.outputs.append(Hold(False, "finalized", 0))
    case.become(ScanStatus.FINALIZED)


def _sweep(case: Case, key: bytes, row: Row) -> bool:
    del row
    case.delete(key)
    return True


_PLAN: dict[Step, tuple[tuple[bytes, ...], Work]] = {
    Step.MOVES: ((keys.SUSPECT,), moves.decide),
    Step.COPIES: ((keys.PENDING,), moves.keep),
    Step.ASSESS: (keys.PLACES, gone.assess),
    Step.MISSING: (keys.PLACES, gone.mark),
    Step.CLEAN: (_LEFT_OVER, _sweep),
}
"""The rows each step goes through, and what it does with one."""
