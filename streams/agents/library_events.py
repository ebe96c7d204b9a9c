"""What the library's rules have to say, as events: with the header that names the record which caused them."""

from __future__ import annotations

from functools import cache
from typing import Protocol, assert_never

import xxhash
from prometheus_client import Counter

from schemas.library import (
    Change,
    Command,
    FinalizeContinued,
    ItemChanged,
    MediaAliased,
    MediaMerged,
    Observation,
    ScanChanged,
    SourceHeld,
)
from schemas.limits import ID_BYTES_MAX
from schemas.placement import PARTITIONS
from schemas.position import SourcePosition
from schemas.topics import LIBRARY_CHANGED, LIBRARY_OBSERVED, MEDIA_MERGED
from streams.domain.library.outputs import (
    Aliased,
    At,
    Continued,
    Hold,
    ItemState,
    Merged,
    Output,
    ScanState,
)
from streams.domain.library.words import ScanStatus
from streams.runtime import metrics

OUTPUTS = (LIBRARY_CHANGED.name, LIBRARY_OBSERVED.name)
EVERYWHERE = (MEDIA_MERGED.name,)
"""Every person's unit has every merge."""


class Send(Protocol):
    """Puts one event into the transaction: topic, key, partition."""

    def __call__(self, topic: str, event: Change | FinalizeContinued, key: bytes, partition: int, /) -> None: ...


def tell(output: Output, event: Command | Observation, at: At, first: int, send: Send) -> int:
    """Send ``output``, brought about by ``event`` at ``at``, as output ``first`` of it; how many events it became.

    All go to the partition of their cause; of a merge every partition of media.merged has a copy besides.
    """
    key = event.source_id.encode()
    if isinstance(output, Continued):
        send(LIBRARY_OBSERVED.name, _continued(output, event), key, at.partition)
        return 1
    send(LIBRARY_CHANGED.name, changed(output, event, at, first), key, at.partition)
    if not isinstance(output, Merged):
        return 1
    for partition in range(PARTITIONS):
        copy = changed(output, event, at, first + 1 + partition)
        send(MEDIA_MERGED.name, copy, output.media_id.encode(), partition)
    return 1 + PARTITIONS


def changed(
    output: ItemState | Aliased | Merged | ScanState | Hold, event: Command | Observation, at: At, index: int
) -> Change:
    """The event for output ``index``."""
    event_id = _event_id(event.event_id, str(index))
    correlation_id, source_id = event.correlation_id, event.source_id
    occurred_at, received_at = event.occurred_at, event.received_at
    cause = SourcePosition(at.topic_id, at.partition, at.offset, index)
    match output:
        case ItemState():
            return ItemChanged(
                event_id=event_id,
                correlation_id=correlation_id,
                source_id=source_id,
                occurred_at=occurred_at,
                received_at=received_at,
                cause=cause,
                logged_at=at.logged_at,
                media_id=output.media_id,
                status=output.status,
                changes=output.changes,
                generation=output.generation,
                readable=output.readable,
                upstream_id=output.upstream_id,
                locators=output.locators,
                details=output.details,
                work_id=output.work_id,
                first_seen_at=output.first_seen_at,
            )
        case Aliased():
            return MediaAliased(
                event_id=event_id,
                correlation_id=correlation_id,
                source_id=source_id,
                occurred_at=occurred_at,
                received_at=received_at,
                cause=cause,
                upstream_id=output.upstream_id,
                media_id=output.media_id,
            )
        case Merged():
            return MediaMerged(
                event_id=event_id,
                correlation_id=correlation_id,
                source_id=source_id,
                occurred_at=occurred_at,
                received_at=received_at,
                cause=cause,
                media_id=output.media_id,
                survivor=output.survivor,
            )
        case ScanState():
            return ScanChanged(
                event_id=event_id,
                correlation_id=correlation_id,
                source_id=source_id,
                occurred_at=occurred_at,
                received_at=received_at,
                cause=cause,
                logged_at=at.logged_at,
                generation=output.generation,
                requested_by=output.requested_by,
                status=output.status,
                reason=output.reason,
                started_at=output.started_at,
                observations=output.observations,
                seen=output.seen,
                added=output.added,
                changed=output.changed,
                moved=output.moved,
                missing=output.missing,
                present_before=output.present_before,
                unreadable=output.unreadable,
                skipped=output.skipped,
            )
        case Hold():
            return SourceHeld(
                event_id=event_id,
                correlation_id=correlation_id,
                source_id=source_id,
                occurred_at=occurred_at,
                received_at=received_at,
                cause=cause,
                logged_at=at.logged_at,
                held=output.held,
                reason=output.reason,
                removals=output.removals,
            )
        case _:
            assert_never(output)


def _continued(output: Continued, event: Command | Observation) -> FinalizeContinued:
    """Named by where it goes on, not by its cause: a long end would have ever longer names."""
    name = xxhash.xxh3_64_hexdigest(output.cursor)
    return FinalizeContinued(
        event_id=f"{output.generation}/{output.step}/{name}",
        correlation_id=event.correlation_id,
        source_id=event.source_id,
        occurred_at=event.occurred_at,
        received_at=event.received_at,
        generation=output.generation,
        step=output.step,
        cursor=output.cursor,
    )


def _event_id(cause: str, index: str) -> str:
    """That of its cause, with its index; a hash stands for one that would be too long."""
    event_id = f"{cause}/{index}"
    if len(event_id.encode()) <= ID_BYTES_MAX:
        return event_id
    return f"{xxhash.xxh3_128_hexdigest(cause.encode())}/{index}"


def count(output: Output, at: At) -> None:
    """Count what was decided, in words of closed sets."""
    match output:
        case ItemState():
            for change in output.changes:
                _counter("ItemChanged", change).inc()
        case Aliased():
            _counter("MediaAliased", "").inc()
        case Merged():
            _counter("MediaMerged", "").inc()
        case ScanState():
            _counter("ScanChanged", output.status).inc()
            _count_scan(output, at)
        case Hold():
            _counter("SourceHeld", "held" if output.held else "free").inc()
        case Continued():
            _counter("FinalizeContinued", output.step).inc()
        case _:
            assert_never(output)


def _count_scan(scan: ScanState, at: At) -> None:
    """Of a scan of which no more will become: how long it took and, when it was finalized, what it found."""
    if ScanStatus(scan.status).open:
        return
    metrics.SCAN_SECONDS.labels(scan.status).observe(max(0, at.logged_at - scan.started_at) / 1000)
    if scan.status != ScanStatus.FINALIZED:
        return
    metrics.SCAN_RECEIVED.inc(scan.observations)
    for what in ("seen", "added", "changed", "moved", "missing"):
        metrics.SCAN_ITEMS.labels(what).inc(getattr(scan, what))


@cache  # as many as there are changes and statuses
def _counter(event: str, change: str) -> Counter:
    return metrics.LIBRARY_CHANGES.labels(event, change)
