"""A role's end: SIGTERM and Ctrl-C ask for it, once politely."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def until_signal() -> Iterator[threading.Event]:
    """An event that SIGTERM or SIGINT sets; a second SIGINT interrupts the stopping too. Main thread only."""
    stop = threading.Event()

    def ask(_: int, __: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
