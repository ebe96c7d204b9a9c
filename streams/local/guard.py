"""The owner's end of the guard: a small process that ends our services when this one dies, kill -9 included.

See guard_process.py for the other end. A parent-death signal (Linux) would not do: it fires when the *thread* that
started the child ends, and services are started from a pool.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from streams.local.errors import LocalStackError

PROGRAM = Path(__file__).resolve().with_name("guard_process.py")
READY = "ready\n"
LAUNCH = "import runpy, sys; sys.path[:0] = sys.argv[2:]; runpy.run_path(sys.argv[1], run_name='__main__')"


class Guard:
    """The owner's end. One guard process serves all stacks of this process; it is started at first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0
        self._inherited: subprocess.Popen[str] | None = None
        self._watched: dict[int, signal.Signals] = {}

    def watch(self, pid: int, how: signal.Signals) -> None:
        """From now on, the process is ended when this one dies. Raises LocalStackError without a guard."""
        with self._lock:
            if self._owner not in (0, os.getpid()):
                # Forked: the services so far are the parent's, and so is the guard.
                self._watched, self._inherited, self._process = {}, self._process, None
            self._watched[pid] = how
            self._tell(f"+ {pid} {int(how)}\n")

    def forget(self, pid: int) -> None:
        """The process has ended, its id may be given to somebody else."""
        with self._lock:
            if self._watched.pop(pid, None) is not None:
                self._tell(f"- {pid}\n")

    def close(self) -> None:
        """End the guard; what it still watches is stopped by it before it ends."""
        with self._lock:
            if self._process is not None and self._owner == os.getpid():
                self._end(self._process)
                self._process = None

    def _tell(self, line: str) -> None:
        if self._process is not None:
            try:
                self._send(self._process, line)
                return
            except BrokenPipeError:
                self._end(self._process)
        # The first one, or in place of one that somebody killed: it must know all.
        self._process, self._owner = self._start(), os.getpid()
        for pid, how in self._watched.items():
            self._send(self._process, f"+ {pid} {int(how)}\n")

    @staticmethod
    def _end(process: subprocess.Popen[str]) -> None:
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            # Closing writes what is buffered, which a dead guard does not take.
            with suppress(BrokenPipeError):
                stream.close()
        process.wait()

    @staticmethod
    def _send(process: subprocess.Popen[str], line: str) -> None:
        assert process.stdin is not None
        process.stdin.write(line)
        process.stdin.flush()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            # -I: neither the working folder nor PYTHON* variables decide what code runs, only our own path.
            [sys.executable, "-I", "-c", LAUNCH, str(PROGRAM), *map(os.path.abspath, filter(None, sys.path))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            start_new_session=True,
        )
        assert process.stdout is not None
        if process.stdout.readline() != READY:
            process.kill()
            process.wait()
            raise LocalStackError(
                "The guard process, which ends the services when this program is killed, did not start."
            )
        atexit.register(self.close)
        return process
