"""What every long-running role does the same way: settings, JSON logs, a metrics port."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

from streams.runtime import failpoints, logs, metrics
from streams.runtime.settings import Settings

YIELDS: Final = 19
"""Niceness of bulk work, the most there is. On a machine that is short of CPU a listing takes longer, and no report
waits for it; with less, a door that was late once stayed late for as long as the scan took."""


_SESSION: Final = Path("/proc/self/autogroup")
_TRIES, _AGAIN_S = 20, 0.1


def give_way() -> None:
    """From here on this process, and every child it starts, has the CPU that reports leave; of the disk too, whose
    priority follows niceness. Once is enough: a second call adds nothing.

    Niceness compares processes of one session only where Linux shares the CPU out between sessions first (sched(7),
    autogroups), and a role that was started by a supervisor has a session of its own: that gives way as well. A session
    with others in it, a terminal's, is left alone; a child that is to give way, too, makes no session of its own.
    """
    os.nice(max(0, YIELDS - os.nice(0)))
    if os.getsid(0) != os.getpid():
        return
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError, PermissionError):  # no autogroups here
            try:
                _SESSION.write_text(str(YIELDS))
            except BlockingIOError:  # one session at a time, ten a second
                time.sleep(_AGAIN_S)
                continue
        return


def begin(role: str) -> Settings:
    """Settings of this process, logged redacted; from here on its log is JSON lines and /metrics answers.

    Raises ConfigurationError when a setting, or the specification of failpoints, is wrong.
    """
    settings = Settings.load()
    logs.configure(role, level=settings.log_level)
    failpoints.armed(settings.failpoints)
    log = logs.get("playhead")
    log.info("starting", settings=settings.redacted())
    metrics.STARTED_SECONDS.labels(role).set(time.time())
    if role != "serve":
        # serve answers /metrics on its own port.
        port = metrics.serve(settings.metrics.host, settings.metrics.port)
        log.info("metrics", url=f"http://{settings.metrics.host}:{port}/metrics")
    return settings
