"""A worker process: one app or several on one event loop, one handling of signals, one exit code."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import faust
from mode import Service

from .errors import Crash, EngineError, Refused, exit_code

if TYPE_CHECKING:
    from .app import App

log = logging.getLogger(__name__)

#: Seconds. Records waiting in buffers are objects that an automatic cycle collector visits again and again (measured:
#: a fifth of the CPU at full speed). So it runs by the clock, and what the start left behind is not looked at.
GC_EVERY = 60.0
#: Seconds that a thread may keep the interpreter when others want it. A batch is worked on or produced in less, so it
#: stays in the processor's caches; what is urgent, heartbeats, does not need the interpreter.
SWITCH_EVERY = 0.02


def run_together(apps: Sequence[App], *, loglevel: str | None = None) -> NoReturn:
    """Work until SIGTERM or SIGINT (clean stop) or an error in any app, then leave the process.

    Each app keeps its own group, transactional ids, changelogs and state directory, so apps may be deployed
    together or apart, differently in each process; they share the loop, which only code that does not
    ``await`` can hold up. The first failure ends all: the others finish started batches and leave their
    groups as on SIGTERM.

    Exit codes: 0 clean; 1 crash; 70 start again (something hung); 78 an operator must act; that of the first
    failure. The process ends by ``os._exit`` after the logs are flushed: a librdkafka call that hangs must
    not keep it. ``loglevel`` sets up logging to stderr; ``None`` leaves logging as the program has it.
    """
    failure: BaseException | None = None
    try:
        check_apart(apps)
        for app in apps:
            app.group  # noqa: B018  what is declared must make sense before anything starts
        worker = Worker(apps, loglevel)
        asyncio.set_event_loop(worker.loop)
        gc.freeze()
        gc.disable()
        sys.setswitchinterval(SWITCH_EVERY)
        worker.execute_from_commandline()
    except SystemExit as ended:
        failure = first_failure(apps)
        if ended.code not in (0, None) and failure is None:
            failure = Crash(f"the worker ended with {ended.code}")
    except BaseException as error:
        failure = first_failure(apps)
        if failure is None:
            failure = error
            log.critical("the worker ends: %s", told(error), exc_info=None if explains_itself(error) else error)
    leave(exit_code(failure))


def check_apart(apps: Sequence[App]) -> None:
    """Raise Refused when two apps would share what must be one's own."""
    if not apps:
        raise Refused("nothing to run: no app was given")
    for what, values in {
        "group": [app.config.group for app in apps],
        "state_dir": [str(app.config.state_dir.absolute()) for app in apps],
    }.items():
        if shared := [value for value, count in Counter(values).items() if count > 1]:
            raise Refused(f"two apps have the {what} {shared[0]}: they would fence and overwrite each other")


def first_failure(apps: Sequence[App]) -> BaseException | None:
    """Return what failed first; what fails after it fails because of it."""
    failed = [(app.failed_at, app.failure) for app in apps if app.failure is not None]
    return min(failed, key=lambda item: item[0])[1] if failed else None


def explains_itself(error: BaseException) -> bool:
    """Whether the text of ``error`` says all; otherwise its traceback is wanted."""
    return isinstance(error, Refused)


def told(error: BaseException) -> str:
    """Return what went wrong in one line, with the places noted on its way up."""
    text = str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"
    return "; ".join([text, *getattr(error, "__notes__", ())])


def leave(code: int) -> NoReturn:
    """End the process now, with everything said."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass  # a closed pipe must not change the exit code
    os._exit(code)


class Worker(faust.Worker):  # type: ignore[misc]
    """Faust's worker without the waits of its last seconds; everything of ours is closed by then."""

    def __init__(self, apps: Sequence[App], loglevel: str | None) -> None:
        self._apps = list(apps)
        self._starting = len(self._apps)
        super().__init__(
            *self._apps,
            loglevel=loglevel,
            override_logging=loglevel is not None,
            quiet=True,
            redirect_stdouts=False,
            loop=asyncio.new_event_loop(),
        )
        self.spinner = None  # it writes to stdout, which belongs to the program

    def on_init_dependencies(self) -> Any:
        services = super().on_init_dependencies()
        for app in self._apps:
            app.in_worker = True
            app.on_startup_finished = self.on_startup_finished
        return services

    @Service.timer(GC_EVERY)  # type: ignore[untyped-decorator]
    async def _collect_cycles(self) -> None:
        gc.collect()

    async def on_startup_finished(self) -> None:
        """Say so once all apps are up."""
        self._starting -= 1
        if self._starting == 0:
            await super().on_startup_finished()

    def _shutdown_loop(self) -> None:
        if self.crash_reason and first_failure(self._apps) is None:
            self._apps[0].failure = self.crash_reason

    def _setproctitle(self, info: str, *, ident: str = "") -> None:
        """Leave the process title to the program."""
