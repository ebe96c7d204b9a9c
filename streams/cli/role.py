"""What every long-running role does the same way: settings, JSON logs, a metrics port."""

from __future__ import annotations

import os
from typing import Final

from streams.runtime import failpoints, logs, metrics
from streams.runtime.settings import Settings

YIELDS: Final = 10
"""Niceness of bulk work. On a machine that is short of CPU a listing takes longer, and no report waits for it."""


def give_way() -> None:
    """From here on this process, and every child it starts, has the CPU that reports leave. Once is enough: a second
    call adds nothing."""
    os.nice(max(0, YIELDS - os.nice(0)))


def begin(role: str) -> Settings:
    """Settings of this process, logged redacted; from here on its log is JSON lines and /metrics answers.

    Raises ConfigurationError when a setting, or the specification of failpoints, is wrong.
    """
    settings = Settings.load()
    logs.configure(role, level=settings.log_level)
    failpoints.armed(settings.failpoints)
    log = logs.get("playhead")
    log.info("starting", settings=settings.redacted())
    if role != "serve":
        # serve answers /metrics on its own port.
        port = metrics.serve(settings.metrics.host, settings.metrics.port)
        log.info("metrics", url=f"http://{settings.metrics.host}:{port}/metrics")
    return settings
