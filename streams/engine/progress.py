"""How far a restore is, said while it runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

#: Seconds between two lines.
EVERY = 2.0


class RestoreProgress:
    """Counts changelog offsets over all units of one assignment; a compacted gap counts like the records it had.

    ``report`` hears (done, total) at the start, at most every EVERY seconds and at the end; a line is logged
    with it, except at the start. Used by one thread.
    """

    def __init__(
        self,
        partitions: list[int],
        total: int,
        report: Callable[[int, int], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._partitions = partitions
        self._total = total
        self._done = 0
        self._report = report
        self._clock = clock
        self._began = self._said_at = clock()
        report(0, total)

    def advance(self, offsets: int) -> None:
        """So many more are replayed."""
        self._done += offsets
        now = self._clock()
        if now - self._said_at >= EVERY:
            self._said_at = now
            self._report(self._done, self._total)
            log.info("%s", self.line(now))

    def less(self, offsets: int) -> None:
        """So many need no replay any more: their unit was given away."""
        self._total -= offsets

    def end(self) -> None:
        """Nothing is left."""
        self._report(self._total, self._total)

    def line(self, now: float) -> str:
        """The state at ``now`` for people: share, records, rate, time left."""
        rate = self._done / max(now - self._began, 1e-9)
        percent = 100 * self._done // self._total if self._total else 100
        left = f"about {(self._total - self._done) / rate:.0f} s left" if rate else "not begun"
        return (
            f"restoring partitions {', '.join(map(str, self._partitions))}: {percent} %, "
            f"{self._done:,} of {self._total:,} records, {rate:,.0f}/s, {left}"
        )
