"""Beginning and breaking off: which scan is at work, and which of its records count.

A generation that is older than the newest is stale: its records count nothing as seen and end nothing.
"""

from __future__ import annotations

from dataclasses import replace

from schemas.library import ScanCancelled, ScanFailed, ScanRequested, ScanStarted
from streams.domain.library.case import Case
from streams.domain.library.outputs import ScanState
from streams.domain.library.rows import NO_TALLY, Scan, Tally
from streams.domain.library.words import ScanStatus, Step, Why


def requested(case: Case, event: ScanRequested) -> None:
    """Its offset is the generation. One that repeats another makes that one's listing stale at once."""
    if event.replaces is None or event.replaces >= case.at.offset:
        return
    scan = case.scan
    if scan is not None and scan.generation <= event.replaces and scan.status == ScanStatus.RUNNING:
        case.become(ScanStatus.SUPERSEDED)
    case.source = replace(case.source, newest=max(case.source.newest, event.replaces + 1))


def start(case: Case, event: ScanStarted) -> None:
    """Everything seen before this record may turn out to be missing, nothing seen after it."""
    source, scan = case.source, case.scan
    if event.generation < source.newest or (scan is not None and event.generation <= scan.generation):
        return
    if scan is not None and ScanStatus(scan.status).open:
        case.become(ScanStatus.SUPERSEDED)
    case.tally = replace(NO_TALLY, live=case.tally.live)
    case.source = replace(
        case.source,
        case_folds=event.case_folds,
        newest=event.generation,
        scan=Scan(
            generation=event.generation,
            requested_by=event.requested_by,
            started=case.at.offset,
            started_at=case.at.logged_at,
            status=ScanStatus.RUNNING.value,
            reason=None,
            present_before=case.tally.live,
            confirmed=False,
            step=Step.MOVES.value,
            cursor=b"",
            skipped=(),
        ),
    )
    case.become(ScanStatus.CANCELLED if source.cancelled == event.generation else ScanStatus.RUNNING)


def counts(case: Case, generation: int, ordinal: int) -> bool:
    """Whether a record of a listing counts: it is of the scan at work. It is also counted here.

    A gap before it says that others were lost; a number that was there already is a repetition, and harmless.
    """
    scan = case.source.scan
    if scan is None or scan.generation != generation or scan.status != ScanStatus.RUNNING:
        return False
    t = case.tally
    if ordinal >= t.next:
        case.tally = Tally(
            t.live, ordinal + 1, t.received + 1, t.lost or ordinal > t.next, t.kept, t.seen,
            t.added, t.changed, t.moved, t.missing, t.unreadable,
        )  # fmt: skip
    return True


def fail(case: Case, event: ScanFailed) -> None:
    """It marks nothing missing. One that failed before it began leaves what another scan is doing alone."""
    status = ScanStatus.CANCELLED if event.reason == Why.CANCELLED else ScanStatus.FAILED
    reason = None if status is ScanStatus.CANCELLED else event.reason
    scan = case.scan
    if scan is not None and event.generation <= scan.generation:
        if event.generation == scan.generation and scan.status == ScanStatus.RUNNING:
            case.become(status, reason)
        return
    if event.generation < case.source.newest:
        return
    case.source = replace(case.source, newest=event.generation + 1)
    case.outputs.append(
        ScanState(
            generation=event.generation,
            requested_by="",
            status=status.value,
            reason=reason,
            started_at=case.at.logged_at,
            observations=0,
            seen=0,
            added=0,
            changed=0,
            moved=0,
            missing=0,
            present_before=case.tally.live,
            unreadable=0,
            skipped=(),
        )
    )


def cancel(case: Case, event: ScanCancelled) -> None:
    """Also of a scan that has not begun yet."""
    scan = case.scan
    if scan is not None and event.generation == scan.generation and ScanStatus(scan.status).open:
        case.become(ScanStatus.CANCELLED)
    if case.source.cancelled is None or event.generation > case.source.cancelled:
        case.source = replace(case.source, cancelled=event.generation)
