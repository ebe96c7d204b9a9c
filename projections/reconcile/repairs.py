"""What mends drift, put into the log: commands, reports, invalidations; and read models made anew from it.

Nothing here writes a row of a read model. Each word may be said twice: a scan asked for twice is one, a report has the
id of what it says, what a server is to be told it is asked for first.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, assert_never

from projections import outbox
from projections.base import Invalidation, Projection
from projections.models.tasks import forward_again
from projections.rebuild.running import Told as Folded
from projections.rebuild.running import answering, connect
from projections.reconcile.findings import (
    CancelScan,
    Flush,
    ForwardAgain,
    Invalidate,
    Refold,
    Repair,
    Scan,
    SetStatus,
    Tell,
)
from projections.reconcile.rows import refold
from schemas.events import WHOLE_MODEL
from schemas.library import Command, ItemStatusRequested
from streams.ingest.wiring import Ingest
from streams.runtime.clock import Clock
from streams.runtime.commands import command_record, scan_cancelled, scan_requested
from streams.runtime.contract import Contract
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.outlet import Outlet
from streams.runtime.settings import Settings
from streams.runtime.tokens import Principal, Scope

BATCH: Final = 500
REASON: Final = "reconcile"
_Ask: TypeAlias = Scan | SetStatus | CancelScan | ForwardAgain


@dataclass(frozen=True, slots=True)
class Mender:
    """``projections``: those whose read models can be made anew, by name. ``refolding`` is told how far that is."""

    settings: Settings
    contract: Contract
    clock: Clock
    correlation_id: str
    projections: Mapping[str, type[Projection[Any]]]
    stop: threading.Event
    refolding: Callable[[str], Folded] = lambda _: lambda _: None
    failpoint: Failpoint = disarmed

    def mend(self, repairs: Iterable[Repair]) -> Counter[str]:
        """Return when all of it is durable; how many of each kind. Raises Unavailable: then repeat, it is harmless."""
        wanted = sorted(repairs, key=repr)
        done: Counter[str] = Counter()
        for one in wanted:
            if isinstance(one, Refold):
                refold(
                    self.projections[one.projection](),
                    self.settings,
                    self.contract,
                    stop=self.stop,
                    told=self.refolding(one.projection),
                    failpoint=self.failpoint,
                )
                done[name_of(one)] += 1
                self.failpoint("reconcile.refolded")
        asked = [one for one in wanted if isinstance(one, _Ask)]
        self._ask(asked)
        self.failpoint("reconcile.asked")
        asyncio.run(self._tell([one for one in wanted if isinstance(one, Tell)]))
        self.failpoint("reconcile.told")
        stale = [one for one in wanted if isinstance(one, Invalidate | Flush)]
        self._invalidate(stale)
        done.update(name_of(one) for one in wanted if not isinstance(one, Refold))
        return done

    def _ask(self, asked: Sequence[_Ask]) -> None:
        outlet = Outlet(self.settings.kafka)
        try:
            for begin in range(0, len(asked), BATCH):
                commands = [self._command(one) for one in asked[begin : begin + BATCH]]
                outlet.publish([command_record(self.contract, command) for command in commands])
        finally:
            outlet.close()

    def _command(self, one: _Ask) -> Command:
        match one:
            case Scan(source_id):
                return scan_requested(
                    source_id, self.clock, requested_by="operator", full=True, correlation_id=self.correlation_id
                )
            case SetStatus(source_id, media_id, status, reason):
                return ItemStatusRequested(
                    event_id=uuid.uuid4().hex,
                    correlation_id=self.correlation_id,
                    source_id=source_id,
                    received_at=self.clock.now_ms(),
                    media_id=media_id,
                    status=status,
                    reason=reason,
                )
            case CancelScan(source_id, generation):
                return scan_cancelled(source_id, self.clock, generation, correlation_id=self.correlation_id)
            case ForwardAgain(source_id, user_ref, media_id):
                return forward_again(source_id, user_ref, media_id, self.clock, self.correlation_id)
            case _:
                assert_never(one)

    async def _tell(self, told: Sequence[Tell]) -> None:
        if not told:
            return
        async with Ingest(self.settings, self.contract, self.clock) as ingest:
            for source_id in sorted({one.source_id for one in told}):
                principal = Principal(REASON, source_id, frozenset({Scope.REPORT}))
                reports = [one.report for one in told if one.source_id == source_id]
                for begin in range(0, len(reports), BATCH):
                    # As a poll does: what a server was told and gives back is an echo here as well.
                    await ingest.door.take(
                        principal, reports[begin : begin + BATCH], format="poll", correlation_id=self.correlation_id
                    )

    def _invalidate(self, stale: Sequence[Invalidate | Flush]) -> None:
        if not stale:
            return
        with answering(), connect(self.settings) as tx:
            outbox.write(tx, [self._invalidation(one) for one in stale])

    def _invalidation(self, one: Invalidate | Flush) -> Invalidation:
        match one:
            case Invalidate(key, log_epoch, partition, version):
                place = (key, log_epoch, partition, version)
            case Flush():
                place = (WHOLE_MODEL, 1, 0, 0)
            case _:
                assert_never(one)
        return Invalidation(*place, uuid.uuid4().hex, self.correlation_id, "playhead", REASON)


def name_of(one: Repair) -> str:
    """For metrics and people."""
    match one:
        case Refold():
            return "refold"
        case Scan():
            return "scan"
        case SetStatus():
            return "status"
        case CancelScan():
            return "cancel"
        case Tell():
            return "report"
        case ForwardAgain():
            return "forward"
        case Invalidate() | Flush():
            return "invalidation"
        case _:
            assert_never(one)
