"""Kind ``scan``: a source is listed, and what was seen goes to the log under the generation of the request.

A scan that broke off is not taken up again but repeated: under a request of its own, which says what it replaces, so
that whatever the broken one still sends counts nothing. What did not change costs one stat each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from streams.effects.kinds import Kind
from streams.effects.requesting import Requests
from streams.effects.scan.ports import Known, Sink, Source, SourceFailed
from streams.effects.scan.scanner import ScanJob, scan
from streams.runtime import logs
from streams.runtime.clock import Clock
from streams.runtime.errors import Permanent, Transient
from streams.runtime.leases import CameToNothing, Lease
from streams.runtime.schedules import Schedules

NAME: Final = "scan"
AT_ONCE: Final = 2
TARGET_S: Final = 3_600.0
_SAY_EVERY_S: Final = 0.5
_log = logs.get(__name__)


class UpstreamFailed(Transient):
    """A media server could not be listed now. ``retry_after_s``: what it asked for."""

    def __init__(self, message: str, retry_after_s: float | None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Scans:
    """What scans stand on. ``source``: how to list a source, raising Permanent when it can't be; ``sink``: where its
    observations go."""

    source: Callable[[str], Source]
    known: Callable[[], AbstractContextManager[Known]]
    sink: Callable[[str], AbstractContextManager[Sink]]
    requests: Callable[[], AbstractContextManager[Requests]]
    schedules: Schedules
    clock: Clock


class TaskProgress:
    """Progress of a scan into its task's row, now and then."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._began = time.monotonic()
        self._said = 0.0

    def seen(self, items: int, changed: int, unreadable: int) -> None:
        now = time.monotonic()
        if now - self._said < _SAY_EVERY_S:
            return
        self._said = now
        self._lease.say(
            {
                "generation": self._lease.version,
                "items": items,
                "changed": changed,
                "unreadable": unreadable,
                "seconds": round(now - self._began, 1),
            }
        )


def scan_kind(scans: Scans, *, at_once: int = AT_ONCE) -> Kind:
    def run(lease: Lease) -> None:
        task = lease.task
        requested_by = str(task.payload.get("requested_by", "operator"))
        if task.begun is not None:
            _repeated(scans, lease)
            requested_by = "retry"
        job = ScanJob(task.source_id, lease.version, requested_by, task.full, task.correlation_id)
        with scans.known() as known, scans.sink(task.source_id) as sink:
            try:
                counts = scan(job, scans.source(task.source_id), known, sink, lease, TaskProgress(lease), scans.clock)
            except SourceFailed as exc:
                raise _meaning(exc) from exc
        if counts.unsettled:
            scans.schedules.follow_up(task.source_id, again=requested_by == "follow_up")
        _log.info("scanned", generation=lease.version, by=requested_by, items=counts.items, unsettled=counts.unsettled)

    return Kind(NAME, run, at_once, TARGET_S)


def _repeated(scans: Scans, lease: Lease) -> None:
    """Take a generation of its own for another attempt. Raises Unavailable, LeaseLost, Cancelled."""
    task = lease.task
    lease.check()
    with scans.requests() as requests:
        generation = requests.scan(
            task.source_id, "retry", full=task.full, replaces=task.begun, correlation_id=task.correlation_id
        )
    lease.begin(generation)


def _meaning(failed: SourceFailed) -> Exception:
    """A server that was away may answer later, one that refuses us will not by itself. A folder that is gone is said so
    once; the next scan looks again."""
    cause = failed.__cause__
    if failed.reason != "upstream":
        return CameToNothing(str(failed))
    if isinstance(cause, Transient):
        return UpstreamFailed(str(failed), getattr(cause, "retry_after_s", None))
    return Permanent(str(failed), cause="rejected")
