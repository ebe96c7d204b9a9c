"""A worker as a process of its own, for tests that kill it or freeze it. Its pieces are small, so it has many points.
When it goes on after it was frozen, it brings its scan to an end as it can, and ends.

python -m tests.integration.library.child kill N      SIGKILL to itself at the N-th step of its scan, or at its end
python -m tests.integration.library.child stop N      SIGSTOP to itself when the N-th piece is in the log
python -m tests.integration.library.child stop listed SIGSTOP to itself right before it says that all was listed
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from schemas.library import Observation, ScanListed
from streams.effects import observing
from streams.effects.observing import ObservedSink
from streams.effects.scan import scanner
from streams.effects.wiring import make_worker
from streams.runtime.contract import Contract
from streams.runtime.settings import Settings
from streams.upstream.files.posix import Posix
from streams.upstream.files.reading.reader import Reader
from tests.integration.library.house import TTL_S

HALTED = threading.Event()


def halt(how: signal.Signals) -> None:
    os.kill(os.getpid(), how)
    # Another thread may have taken the signal: until it stops all of them this one must go nowhere.
    time.sleep(0.5)
    HALTED.set()


class Steps:
    """Counts, and does to this process what is to be done when ``wanted`` is reached."""

    def __init__(self, how: signal.Signals, wanted: int) -> None:
        self._how = how
        self._wanted = wanted
        self._count = 0
        self._lock = threading.Lock()

    def step(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == self._wanted:
                halt(self._how)

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.step()
            return function(*arguments)

        return call


def main() -> None:
    scanner.CHUNK, observing.PIECE_RECORDS = 8, 3  # type: ignore[misc]
    match sys.argv[1:]:
        case ["kill", number]:
            steps = Steps(signal.SIGKILL, int(number))
            for owner, name in ((Posix, "entries"), (Posix, "stat"), (Posix, "open_file"), (Reader, "take")):
                setattr(owner, name, steps.counted(getattr(owner, name)))

            def failpoint(point: str) -> None:
                if point == "work.done":
                    os.kill(os.getpid(), signal.SIGKILL)
                steps.step()

        case ["stop", "listed"]:
            sends = ObservedSink.send

            def send(sink: ObservedSink, event: Observation) -> None:
                if isinstance(event, ScanListed):
                    halt(signal.SIGSTOP)
                sends(sink, event)

            ObservedSink.send = send  # type: ignore[assignment, method-assign]

            def failpoint(point: str) -> None:
                del point

        case ["stop", number]:
            steps = Steps(signal.SIGSTOP, int(number))

            def failpoint(point: str) -> None:
                if point == "work.observed":
                    steps.step()

        case _:
            raise SystemExit("usage: see the module")
    settings = Settings.load()
    with make_worker(
        settings, Contract.of(settings), watching=False, scheduling=False, ttl_s=TTL_S, failpoint=failpoint
    ) as worker:
        threading.Thread(target=worker.run, args=(threading.Event(),), daemon=True).start()
        HALTED.wait()
        while any(thread.is_alive() for thread in worker._running["scan"]):
            time.sleep(0.02)


if __name__ == "__main__":
    main()
