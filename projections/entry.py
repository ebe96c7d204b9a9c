"""What the command line calls: run a projection or the relay until told to stop, and say how it ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from projections.base import Projection
from projections.models.dead_letters import DeadLetterProjection
from projections.models.forwarding import ForwardingProjection
from projections.models.library import LibraryProjection
from projections.models.playback import PlaybackProjection
from projections.models.tasks import TaskProjection
from projections.relay import Relay
from projections.runner import Runner
from streams.runtime import failpoints, logs
from streams.runtime.contract import Contract
from streams.runtime.errors import EXIT_CONFIGURATION, EXIT_RESTART, ConfigurationError, Fatal
from streams.runtime.settings import Settings

PROJECTIONS: dict[str, type[Projection[Any]]] = {
    PlaybackProjection.name: PlaybackProjection,
    LibraryProjection.name: LibraryProjection,
    TaskProjection.name: TaskProjection,
    ForwardingProjection.name: ForwardingProjection,
    DeadLetterProjection.name: DeadLetterProjection,
}

_log = logs.get(__name__)


def run_projection(
    settings: Settings, stop: threading.Event | None = None, *, projection: str = PlaybackProjection.name
) -> int:
    """Run one projection until ``stop`` is set; the exit code for the process.

    0: stopped as asked. 70: start it again. 78: an operator must act, the reason is logged. Anything unexpected
    is raised: the process should end by it (exit 1) and be started again, nothing is lost. Without ``stop``,
    SIGTERM and SIGINT stop it (call from the main thread then). Logs and metrics are the caller's to set up.
    """

    def run(asked: threading.Event) -> None:
        if projection not in PROJECTIONS:
            raise ConfigurationError(f"no projection {projection!r}; there are: {', '.join(PROJECTIONS)}")
        runner = Runner(
            PROJECTIONS[projection](),
            settings,
            Contract.of(settings),
            failpoint=failpoints.armed(settings.failpoints),
        )
        runner.run(asked)

    return _ended(f"projection.{projection}", run, stop)


def run_relay(settings: Settings, stop: threading.Event | None = None) -> int:
    """Run the relay until ``stop`` is set. Same contract as ``run_projection``."""

    def run(asked: threading.Event) -> None:
        Relay(settings, Contract.of(settings), failpoint=failpoints.armed(settings.failpoints)).run(asked)

    return _ended("relay", run, stop)


def _ended(name: str, run: Callable[[threading.Event], None], stop: threading.Event | None) -> int:
    with _stopping(stop) as asked:
        _log.info("started", name=name)
        try:
            run(asked)
        except ConfigurationError as exc:
            _log.error("stopped: an operator must act", name=name, reason=str(exc))
            return EXIT_CONFIGURATION
        except Fatal as exc:
            _log.error("stopped: start it again", name=name, reason=str(exc))
            return EXIT_RESTART
        _log.info("stopped as asked", name=name)
        return 0


@contextmanager
def _stopping(stop: threading.Event | None) -> Iterator[threading.Event]:
    """``stop`` itself, or an event that SIGTERM and SIGINT set while this lasts."""
    if stop is not None:
        yield stop
        return
    asked = threading.Event()

    def ask(signum: int, frame: FrameType | None) -> None:
        del signum, frame
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
