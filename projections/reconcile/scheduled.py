"""Reconcile as a task: what a ReconcileRequested of a source means.

A source's library and playback are compared each time; what is of no source (rows, orphans, names, the cache) once a
day, by whichever source's turn comes first. By schedule nothing is mended but what nobody needs to be asked for: items
whose grace is over are archived.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from projections.base import Projection
from projections.rebuild.running import answering, connect
from projections.reconcile.findings import Scope, SetStatus
from projections.reconcile.running import Chosen, reconcile
from streams.effects.kinds.reconcile import Compare
from streams.runtime.contract import Contract
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.settings import Settings

ALL: Final = "all"
REPAIR: Final = "repair"
"""A scope that is none: what the others find is mended."""
OF_A_SOURCE: Final = (Scope.LIBRARY, Scope.PROGRESS)
_NAMES: Final[Mapping[str, Scope]] = {**{scope.value: scope for scope in Scope}, "caches": Scope.CACHE}
_LATELY: Final = """
SELECT EXISTS (SELECT FROM core.reconcile_runs WHERE 'rows' = ANY(scopes) AND ended_at > now() - interval '20 hours')"""


def comparing(
    settings: Settings,
    contract: Contract,
    projections: Mapping[str, type[Projection[Any]]],
    failpoint: Failpoint = disarmed,
) -> Compare:
    """For a worker. Needs the owner's password: rows are folded into a schema of their own."""

    def compare(source_id: str, scopes: Collection[str], correlation_id: str, ours: Callable[[], None]) -> None:
        def shown(scope: Scope, what: str, done: int, total: int | None) -> None:
            del scope, what, done, total
            ours()

        reconcile(
            settings,
            contract,
            Chosen(
                wanted(scopes, lately=_lately(settings)),
                source_id,
                repair=True,
                mends=None if REPAIR in scopes else (SetStatus,),
            ),
            projections,
            stop=threading.Event(),
            shown=shown,
            correlation_id=correlation_id,
            failpoint=failpoint,
        )

    return compare


def wanted(scopes: Collection[str], *, lately: bool) -> list[Scope]:
    """``lately``: what is of no source was compared within the day, and need not be unless it is named."""
    if ALL not in scopes:
        return [scope for scope in Scope if any(_NAMES.get(name) is scope for name in scopes)]
    named = {_NAMES[name] for name in scopes if name in _NAMES}
    return [scope for scope in Scope if scope in OF_A_SOURCE or not lately or scope in named]


def _lately(settings: Settings) -> bool:
    with answering(), connect(settings) as tx:
        [(found,)] = tx.execute(_LATELY.encode()).fetchall()
        return bool(found)
