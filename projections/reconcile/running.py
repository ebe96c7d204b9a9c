"""One run of reconcile: compare what was chosen, say what was found, and put what mends it into the log.

    orphans, aliases ─ libraries ─ progress ─ cache ─ rows ─► findings ─► with repair: mendings, each once ─► the log

Everything that can't be compared now (a server away, another rebuild at work) is passed over and said so.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import psycopg

from projections.base import Projection
from projections.rebuild.running import Progress, answering, connect
from projections.reconcile.aliases import check_aliases
from projections.reconcile.caches import check_cache
from projections.reconcile.findings import Cause, Findings, Repair, Scope, scope_of
from projections.reconcile.library import check_library
from projections.reconcile.orphans import check_orphans
from projections.reconcile.progress import check_progress
from projections.reconcile.repairs import Mender
from projections.reconcile.rows import check_rows
from streams.effects.forward.sessions import Sessions
from streams.runtime import logs, metrics
from streams.runtime.cache import url_of
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.contract import Contract
from streams.runtime.errors import ConfigurationError, Unavailable
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.settings import Settings

PER_S: Final = 20.0
"""Questions to one server a second."""
RUNS_KEPT: Final = 1_000
OF_A_SOURCE: Final = (Scope.LIBRARY, Scope.PROGRESS)
_LISTED: Final = """
SELECT s.source_id FROM core.sources s
WHERE EXISTS (SELECT FROM core.source_trees t WHERE t.source_id = s.source_id)
   OR EXISTS (SELECT FROM core.source_upstreams u WHERE u.source_id = s.source_id) ORDER BY 1"""
_SERVERS: Final = "SELECT source_id FROM core.source_upstreams ORDER BY 1"
_RUN: Final = """
INSERT INTO core.reconcile_runs (run_id, scopes, source_id, begun_at, repaired, drift)
VALUES (%(run)s, %(scopes)s, %(source)s, %(begun)s, %(repaired)s, %(drift)s)"""
_THIN: Final = """
DELETE FROM core.reconcile_runs WHERE run_id IN (
    SELECT run_id FROM core.reconcile_runs ORDER BY ended_at DESC OFFSET %s)"""
_log = logs.get(__name__)


class Shown(Protocol):
    """Who watches. ``total`` None: nobody knows."""

    def __call__(self, scope: Scope, what: str, done: int, total: int | None) -> None: ...


def unseen(scope: Scope, what: str, done: int, total: int | None) -> None:
    del scope, what, done, total


@dataclass(frozen=True, slots=True)
class Chosen:
    """``source_id`` None: every source. ``repair``: put what mends it into the log; of these kinds, None: of all."""

    scopes: Collection[Scope] = tuple(Scope)
    source_id: str | None = None
    repair: bool = False
    mends: tuple[type[Repair], ...] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """``repaired``: how many mendings of each kind are in the log."""

    run_id: str
    findings: Findings
    repaired: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def in_order(self) -> bool:
        """Nothing was found, or all of it is being mended."""
        return not self.findings.count or bool(self.repaired)

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.run_id,
            **self.findings.as_json(),
            "repaired": dict(self.repaired),
            "seconds": round(self.seconds, 1),
        }


def reconcile(
    settings: Settings,
    contract: Contract,
    chosen: Chosen,
    projections: Mapping[str, type[Projection[Any]]],
    *,
    stop: threading.Event | None = None,
    shown: Shown = unseen,
    clock: Clock | None = None,
    correlation_id: str | None = None,
    failpoint: Failpoint = disarmed,
) -> Outcome:
    """Raises Unavailable without PostgreSQL, or without Kafka when something is mended; repeating is harmless."""
    clock, stop = clock or SystemClock(), stop or threading.Event()
    began, begun_at, run_id = time.monotonic(), datetime.now(UTC), correlation_id or uuid.uuid4().hex
    run = _Run(settings, contract, chosen, projections, stop, shown, clock, failpoint)
    for scope in Scope:
        if scope in chosen.scopes and not stop.is_set():
            with answering():
                run.check(scope)
            metrics.RECONCILE_LOOKED_AT.labels(scope.value).set(run.findings.looked_at.get(scope, 0))
            failpoint("reconcile.checked")
    findings = run.findings
    repaired: Counter[str] = Counter()
    repairs = [one for one in findings.repairs if chosen.mends is None or isinstance(one, chosen.mends)]
    if chosen.repair and repairs and not stop.is_set():
        mender = Mender(
            settings,
            contract,
            clock,
            run_id,
            projections,
            stop,
            lambda name: lambda now: shown(Scope.ROWS, f"{name}: again", now.done, now.total),
            failpoint,
        )
        repaired = mender.mend(repairs)
    _account(findings, repaired, chosen)
    with answering(), connect(settings) as tx:
        drift = {cause.value: one.count for cause, one in findings.causes()}
        named = {
            "run": run_id,
            "scopes": sorted(scope.value for scope in chosen.scopes),
            "source": chosen.source_id,
            "begun": begun_at,
            "repaired": bool(repaired),
            "drift": json.dumps(drift),
        }
        tx.execute(b"DELETE FROM core.reconcile_runs WHERE run_id = %(run)s", named)
        tx.execute(_RUN.encode(), named)
        tx.execute(_THIN.encode(), (RUNS_KEPT,))
    _log.info("reconciled", correlation_id=run_id, drift=drift, repaired=dict(repaired))
    return Outcome(run_id, findings, repaired, time.monotonic() - began)


@dataclass(frozen=True, slots=True)
class _Run:
    settings: Settings
    contract: Contract
    chosen: Chosen
    projections: Mapping[str, type[Projection[Any]]]
    stop: threading.Event
    shown: Shown
    clock: Clock
    failpoint: Failpoint
    findings: Findings = field(default_factory=Findings)

    def check(self, scope: Scope) -> None:
        match scope:
            case Scope.ORPHANS | Scope.ALIASES:
                self.shown(scope, "", 0, None)
                with connect(self.settings) as tx:
                    tx.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                    (check_orphans if scope is Scope.ORPHANS else check_aliases)(tx, self.findings)
            case Scope.LIBRARY:
                for source_id in self._sources(_LISTED):
                    check_library(
                        self.settings,
                        source_id,
                        self.findings,
                        self.clock,
                        lambda source, done: self.shown(Scope.LIBRARY, source, done, None),
                    )
            case Scope.PROGRESS:
                self._progress()
            case Scope.CACHE:
                url = url_of(self.settings)
                if url is not None:
                    check_cache(
                        self.settings,
                        url,
                        self.findings,
                        stop=self.stop,
                        told=lambda done: self.shown(Scope.CACHE, "entries", done, None),
                    )
            case Scope.ROWS:
                self._rows()

    def _progress(self) -> None:
        with Sessions(self.clock, per_s=PER_S) as sessions:
            for source_id in self._sources(_SERVERS):
                check_progress(
                    self.settings,
                    source_id,
                    sessions,
                    self.findings,
                    stop=self.stop,
                    told=lambda source, done, total: self.shown(Scope.PROGRESS, source, done, total),
                )

    def _rows(self) -> None:
        for name, kind in self.projections.items():
            if not kind.tables:
                continue

            def told(now: Progress, name: str = name) -> None:
                self.shown(Scope.ROWS, name, now.done, now.total)

            try:
                check_rows(
                    kind(),
                    self.settings,
                    self.contract,
                    self.findings,
                    keep=self.chosen.repair and self.chosen.mends is None,
                    stop=self.stop,
                    told=told,
                    failpoint=self.failpoint,
                )
            except ConfigurationError as exc:
                # Its log does not begin at its beginning any more, or it has never run.
                self.findings.pass_over(Scope.ROWS, name, str(exc))
            except Unavailable as exc:
                if self.stop.is_set():
                    return
                self.findings.pass_over(Scope.ROWS, name, str(exc))

    def _sources(self, query: str) -> list[str]:
        if self.chosen.source_id is not None:
            return [self.chosen.source_id]
        with connect(self.settings) as tx:
            return [row[0] for row in tx.execute(query.encode()).fetchall()]


def _account(findings: Findings, repaired: Mapping[str, int], chosen: Chosen) -> None:
    """Gauges of what was compared; of one source's library and playback under its name. What could not be is as it was
    found last."""
    for cause in Cause:
        if (scope := scope_of(cause)) in chosen.scopes and findings.saw(scope):
            source = chosen.source_id or "" if scope in OF_A_SOURCE else ""
            drift = findings.drift.get(cause)
            metrics.RECONCILE_DRIFT.labels(cause.value, source).set(drift.count if drift else 0)
    for kind, times in repaired.items():
        metrics.RECONCILE_REPAIRS.labels(kind).inc(times)
    found = "drift" if findings.count else "in_order" if findings.compared else "not_compared"
    metrics.RECONCILE_RUNS.labels(found).inc()
