"""What the command line calls: a rebuild begun or gone on with, the way back, and an end to both."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from projections.base import Projection
from projections.rebuild import books, starts, tables
from projections.rebuild.running import LOCK, Rebuild, answering, connect
from streams.runtime.contract import Contract
from streams.runtime.errors import ConfigurationError
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.settings import Settings


@contextmanager
def rebuilding(
    projection: Projection[Any],
    settings: Settings,
    contract: Contract,
    start: starts.Start,
    failpoint: Failpoint = disarmed,
    stop: threading.Event | None = None,
) -> Iterator[Rebuild]:
    """A rebuild in schema model_next, begun or gone on with."""
    with Rebuild(projection, settings, contract, failpoint=failpoint, stop=stop) as run:
        run.open(start)
        yield run


@contextmanager
def rolling_back(
    settings: Settings,
    contract: Contract,
    projections: Mapping[str, type[Projection[Any]]],
    failpoint: Failpoint = disarmed,
    stop: threading.Event | None = None,
) -> Iterator[Rebuild]:
    """The former tables of the last switch, to be brought up to date and switched to.

    Raises ConfigurationError when there are none, or of a projection this build does not have.
    """
    with answering(), connect(settings) as tx:
        about = books.about(tx, tables.FORMER)
    if about is None or about[0] not in projections:
        raise ConfigurationError("there are no former tables to go back to")
    former = projections[about[0]]()
    with Rebuild(former, settings, contract, schema=tables.FORMER, failpoint=failpoint, stop=stop) as run:
        run.open(None)
        yield run


def discard(settings: Settings, schema: str) -> bool:
    """Drop a schema of rebuilt or former tables; False when there is none.

    Raises ConfigurationError while a rebuild is at work.
    """
    with answering(), connect(settings) as tx:
        [(free,)] = tx.execute(LOCK.replace(b"advisory_lock", b"advisory_xact_lock")).fetchall()
        if not free:
            raise ConfigurationError("a rebuild is at work")
        known = tables.exists(tx, schema)
        tables.drop(tx, schema)
        return known
