"""A worker's chore: ask for the scans and comparisons that are due by schedule, each source having one of both."""

from __future__ import annotations

import random
import time
from typing import Final

from streams.effects.requesting import Requests
from streams.effects.retry import Chance
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.leases import Tasks
from streams.runtime.schedules import RECONCILE, Schedules

LOOK_EVERY_S: Final = 2.0
PROVIDE_EVERY_S: Final = 60.0
RECONCILE_SCOPE: Final = "all"


class ScheduledScans:
    def __init__(
        self,
        schedules: Schedules,
        tasks: Tasks,
        requests: Requests,
        *,
        comparing: bool = False,
        chance: Chance = random.uniform,
        failpoint: Failpoint = disarmed,
    ) -> None:
        """``comparing``: this worker does comparisons, so they are asked for as well."""
        self._schedules = schedules
        self._tasks = tasks
        self._requests = requests
        self._comparing = comparing
        self._chance = chance
        self._failpoint = failpoint
        self._looked_at: float | None = None
        self._provided_at: float | None = None

    def step(self) -> None:
        """Raises Unavailable; what was due stays so."""
        now = time.monotonic()
        if self._looked_at is not None and now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        if self._provided_at is None or now - self._provided_at >= PROVIDE_EVERY_S:
            self._schedules.provide()
            if self._comparing:
                self._schedules.provide_comparisons()
            self._provided_at = now
        while (due := self._schedules.claim()) is not None:
            if due.requested_by == RECONCILE:
                self._requests.reconcile(due.source_id, RECONCILE_SCOPE)
            # A scan by schedule that is under way is the scan; a follow-up is for what that one came too early for.
            elif due.requested_by != "schedule" or not self._tasks.waits("scan", due.source_id).wanted:
                self._requests.scan(due.source_id, due.requested_by)
                self._failpoint("schedule.requested")
            self._schedules.moved_on(due, self._chance(0.0, float(due.jitter_s)))

    def close(self) -> None:
        self._requests.close()
