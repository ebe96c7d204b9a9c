"""A small process that ends our services when their owner dies in any way, kill -9 included.

The owner writes "+ pid signal" and "- pid" lines to the guard's standard input. The operating system closes that
pipe when the owner is gone; then the guard stops what is left: first the service's own clean signal, after
GRACE_S the whole tree by SIGKILL. A parent-death signal (Linux) would not do: it fires when the *thread* that
started the child ends, and services are started from a pool.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

GRACE_S = 15.0
POLL_S = 0.05


class Guard:
    """The owner's end. One guard process serves all stacks of this process; it is started at first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0

    def watch(self, pid: int, how: signal.Signals) -> None:
        """From now on, the process is ended when this one dies."""
        self._write(f"+ {pid} {int(how)}\n")

    def forget(self, pid: int) -> None:
        """The process has ended, its id may be given to somebody else."""
        self._write(f"- {pid}\n")

    def close(self) -> None:
        """End the guard; what it still watches is stopped by it before it ends."""
        with self._lock:
            if self._process and self._process.stdin and self._owner == os.getpid():
                self._process.stdin.close()
                self._process.wait()
            self._process = None

    def _write(self, line: str) -> None:
        with self._lock:
            if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
                self._process = self._start()
                self._owner = os.getpid()
            assert self._process.stdin is not None
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            # -I: neither the working folder nor PYTHON* variables decide what code runs.
            [sys.executable, "-I", str(Path(__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            cwd="/",
            start_new_session=True,
        )
        atexit.register(self.close)
        return process


def main() -> None:
    """Read until the owner is gone, then end what is left."""
    watched: dict[int, tuple[psutil.Process, signal.Signals]] = {}
    for line in sys.stdin:
        match line.split():
            case ["+", pid, how]:
                try:
                    watched[int(pid)] = (psutil.Process(int(pid)), signal.Signals(int(how)))
                except psutil.NoSuchProcess:
                    continue
            case ["-", pid]:
                watched.pop(int(pid), None)
    roots, members = [], []
    for process, how in watched.values():
        try:
            members += [process, *process.children(recursive=True)]
            process.send_signal(signal.SIGCONT)
            process.send_signal(how)
        except psutil.NoSuchProcess:
            continue
        roots.append(process)
    deadline = time.monotonic() + GRACE_S
    while any(_lives(process) for process in roots) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    # Who did not end, and children that outlived their parent.
    for process in members:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def _lives(process: psutil.Process) -> bool:
    # A zombie has ended; its owner, which may wait for this guard, has only not asked for its exit code.
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    main()
