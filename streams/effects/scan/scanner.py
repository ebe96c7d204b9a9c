"""One scan of one source: ScanStarted, then each thing that is there, then ScanListed; or ScanFailed.

Nothing is sent before the source could be opened, and nothing after the lease is lost. Observations carry ordinals
without a gap, and ScanListed says how many there are, so that what gets lost on the way is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from schemas.library import (
    ItemObserved,
    Observation,
    PathSkipped,
    ReasonCount,
    ScanFailed,
    ScanListed,
    ScanStarted,
)
from streams.effects.scan.ports import (
    Found,
    Known,
    KnownFile,
    Lease,
    Listing,
    Progress,
    Sighting,
    Sink,
    Skip,
    Source,
    SourceFailed,
)
from streams.runtime import metrics
from streams.runtime.clock import Clock
from streams.runtime.leases import Cancelled
from streams.upstream.details import text

CHUNK: Final = 1_000
"""Observations between two looks at the lease. They are on their way while the next are made, so that what is sent
after a lease is lost are those of one chunk at most; they are of a generation that counts nothing by then."""
UNREADABLE_TOLD_MAX: Final = 100
REASONS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class ScanJob:
    """``generation``: offset of the request. ``full``: details of unchanged items are read as well."""

    source_id: str
    generation: int
    requested_by: str
    full: bool
    correlation_id: str


@dataclass(slots=True)
class ScanCounts:
    """What a scan saw. ``changed``: with details, so new or changed as far as the scanner knows; ``unsettled``: a
    follow-up scan is due within a minute; ``unreadable_paths``: the first hundred, for people."""

    items: int = 0
    changed: int = 0
    failed: int = 0
    unsettled: int = 0
    unreadable: int = 0
    ignored: int = 0
    observations: int = 0
    complete: bool = False
    skipped: Mapping[str, int] | None = None
    unreadable_paths: tuple[bytes, ...] = ()

    def add(self, found: Found) -> None:
        match found:
            case Sighting():
                self.items += 1
                self.changed += found.details is not None
                self.failed += found.failed is not None
                self.unsettled += not found.settled
            case Skip(path, _, "unreadable"):
                self.unreadable += 1
                if len(self.unreadable_paths) < UNREADABLE_TOLD_MAX:
                    self.unreadable_paths = (*self.unreadable_paths, path)
            case Skip():
                self.ignored += 1


def scan(
    job: ScanJob, source: Source, known: Known, sink: Sink, lease: Lease, progress: Progress, clock: Clock
) -> ScanCounts:
    """Scan, and return when ScanListed is durable.

    Raises SourceFailed and Cancelled, each after ScanFailed is durable; LeaseLost, Unavailable and whatever is a bug,
    each without another word to the log: the scan is to be repeated under another generation.
    """
    scribe = _Scribe(job, sink, lease, clock)
    try:
        with source.opened() as listing:
            return _listed(job, listing, known, scribe, progress)
    except SourceFailed as exc:
        scribe.failed(exc.reason, exc.detail)
        raise
    except Cancelled:
        scribe.failed("cancelled", "")
        raise


def _listed(job: ScanJob, listing: Listing, known: Known, scribe: _Scribe, progress: Progress) -> ScanCounts:
    counts = ScanCounts()
    scribe.started(listing.case_folds)

    def look(folder: bytes) -> Mapping[bytes, KnownFile]:
        return known.folder(job.source_id, folder)

    for batch in listing.batches(look, full=job.full):
        for found in batch:
            counts.add(found)
            scribe.observed(found)
        scribe.batch_over()
        progress.seen(counts.items, counts.changed, counts.unreadable)
    counts.complete, counts.skipped = listing.tally.complete, dict(listing.tally.skipped)
    counts.observations = scribe.listed(counts.complete, counts.skipped)
    return counts


class _Scribe:
    """Numbers what was found and sends it in chunks."""

    def __init__(self, job: ScanJob, sink: Sink, lease: Lease, clock: Clock) -> None:
        self._job = job
        self._sink = sink
        self._lease = lease
        self._clock = clock
        self._chunk: list[Found] = []
        self._ordinal = 0

    def started(self, case_folds: bool) -> None:
        job = self._job
        self._lease.check()
        self._say(
            ScanStarted(
                event_id=self._id("started"),
                correlation_id=job.correlation_id,
                source_id=job.source_id,
                received_at=self._clock.now_ms(),
                generation=job.generation,
                requested_by=job.requested_by,
                case_folds=case_folds,
                full=job.full,
            )
        )

    def observed(self, found: Found) -> None:
        self._chunk.append(found)
        if len(self._chunk) >= CHUNK:
            self._send()

    def batch_over(self) -> None:
        """A batch is over: the lease is looked at even when little was found."""
        self._lease.check()

    def listed(self, complete: bool, skipped: Mapping[str, int]) -> int:
        """Everything was sent; how many observations that were."""
        self._send()
        self._lease.check()
        reasons = sorted(skipped.items(), key=lambda one: (-one[1], one[0]))[:REASONS_MAX]
        self._say(
            ScanListed(
                event_id=self._id("listed"),
                correlation_id=self._job.correlation_id,
                source_id=self._job.source_id,
                received_at=self._clock.now_ms(),
                generation=self._job.generation,
                complete=complete,
                observations=self._ordinal,
                skipped=tuple(ReasonCount(reason, count) for reason, count in sorted(reasons)),
            )
        )
        metrics.SCAN_LISTED.inc(self._ordinal)
        return self._ordinal

    def failed(self, reason: str, detail: str) -> None:
        self._say(
            ScanFailed(
                event_id=self._id("failed"),
                correlation_id=self._job.correlation_id,
                source_id=self._job.source_id,
                received_at=self._clock.now_ms(),
                generation=self._job.generation,
                reason=reason,
                detail=text(detail) or "",
            )
        )

    def _send(self) -> None:
        if not self._chunk:
            return
        self._lease.check()
        now_ms = self._clock.now_ms()
        for found in self._chunk:
            self._sink.send(self._event(found, now_ms))
            self._ordinal += 1
        self._chunk.clear()

    def _event(self, found: Found, now_ms: int) -> Observation:
        job = self._job
        match found:
            case Sighting():
                return ItemObserved(
                    event_id=self._id(self._ordinal),
                    correlation_id=job.correlation_id,
                    source_id=job.source_id,
                    received_at=now_ms,
                    generation=job.generation,
                    ordinal=self._ordinal,
                    how="scan",
                    upstream_id=found.upstream_id,
                    locator=found.locator,
                    settled=found.settled,
                    details=found.details,
                    failed=found.failed,
                )
            case Skip():
                return PathSkipped(
                    event_id=self._id(self._ordinal),
                    correlation_id=job.correlation_id,
                    source_id=job.source_id,
                    received_at=now_ms,
                    generation=job.generation,
                    ordinal=self._ordinal,
                    path=found.path,
                    folder=found.folder,
                    reason=found.reason,
                )

    def _say(self, event: Observation) -> None:
        self._sink.send(event)
        self._sink.flush()

    def _id(self, what: int | str) -> str:
        return f"scan-{self._job.generation}-{what}"
