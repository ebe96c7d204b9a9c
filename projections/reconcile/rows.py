"""Live rows against a fresh fold of the log: rebuilt beside the live ones, compared at equal offsets, at one moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from projections.base import Projection
from projections.digest import Compared, Difference
from projections.rebuild import tables
from projections.rebuild.running import LOCK, Rebuild, Told, answering, connect
from projections.rebuild.starts import Beginning
from projections.reconcile.findings import Cause, Findings, Refold, Scope
from streams.runtime.contract import Contract
from streams.runtime.errors import ConfigurationError, Unavailable
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.settings import Settings

SWITCH_TRIES: Final = 5
_HOW: Final = {"missing": Cause.ROW_EXTRA, "extra": Cause.ROW_DELETED, "differs": Cause.ROW_EDITED}
_PEOPLE: Final = frozenset({"title", "name", "error_text"})


def check_rows(
    projection: Projection[Any],
    settings: Settings,
    contract: Contract,
    findings: Findings,
    *,
    keep: bool,
    stop: threading.Event,
    told: Told | None = None,
    failpoint: Failpoint = disarmed,
) -> None:
    """Compare all read models of one projection. ``keep``: what was folded stays when it differs, for the repair."""
    with _beside(projection, settings, contract, stop, failpoint) as rebuild:
        if not rebuild.catch_up(told):
            raise Unavailable("stopped")
        compared = rebuild.compare()
        failpoint("reconcile.compared")
        for one in compared:
            findings.looked(Scope.ROWS, one.second.rows)
            _judge(one, projection.name, findings)
        if not keep or all(one.equal for one in compared):
            rebuild.drop()


def refold(
    projection: Projection[Any],
    settings: Settings,
    contract: Contract,
    *,
    stop: threading.Event,
    told: Told | None = None,
    failpoint: Failpoint = disarmed,
) -> int:
    """Make the read models anew from the log, or go on with those that were compared, and make them the live ones;
    the model epoch from then on."""
    with _beside(projection, settings, contract, stop, failpoint) as rebuild:
        if not rebuild.catch_up(told):
            raise Unavailable("stopped")
        return rebuild.switch(SWITCH_TRIES).model_epoch


@contextmanager
def _beside(
    projection: Projection[Any], settings: Settings, contract: Contract, stop: threading.Event, failpoint: Failpoint
) -> Iterator[Rebuild]:
    _clear_others(settings, projection)
    with Rebuild(projection, settings, contract, schema=tables.CHECK, failpoint=failpoint, stop=stop) as rebuild:
        try:
            rebuild.open(Beginning())
        except ConfigurationError:
            # What a run before this left: of an older build, or begun and not finished. It is ours to drop.
            if not _drop(settings):
                raise
            rebuild.open(Beginning())
        yield rebuild


def _clear_others(settings: Settings, projection: Projection[Any]) -> None:
    """What a killed run left of another projection is in the way."""
    with answering(), connect(settings) as tx:
        [(free,)] = tx.execute(LOCK.replace(b"advisory_lock", b"advisory_xact_lock")).fetchall()
        if not free:
            raise Unavailable("a rebuild is at work: rows are compared when it is done")
        if tx.execute("SELECT to_regclass(%s)", (f"{tables.CHECK}.about",)).fetchone() == (None,):
            tables.drop(tx, tables.CHECK)
            return
        row = tx.execute(f"SELECT projection FROM {tables.CHECK}.about".encode()).fetchone()  # noqa: S608 - a constant
        if row is None or row[0] != projection.name:
            tables.drop(tx, tables.CHECK)


def _drop(settings: Settings) -> bool:
    with answering(), connect(settings) as tx:
        known = tables.exists(tx, tables.CHECK)
        tables.drop(tx, tables.CHECK)
        return known


def _judge(one: Compared, projection: str, findings: Findings) -> None:
    for difference in one.shown:
        findings.add(_HOW[difference.how], _said(difference), Refold(projection))
    rest = one.differing - len(one.shown)
    if rest > 0:
        findings.add(Cause.ROWS_MORE, f"{one.table}: {rest} more", Refold(projection), times=rest)


def _said(difference: Difference) -> str:
    key = " ".join(f"{name}={value}" for name, value in difference.key.items())
    values = ", ".join(
        name if name in _PEOPLE else f"{name}: {_short(live)} → {_short(folded)}"
        for name, (live, folded) in difference.values.items()
    )
    return f"{difference.table} {key}" + (f" ({values})" if values else "")


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
