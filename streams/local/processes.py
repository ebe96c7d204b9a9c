"""Finding and signalling operating-system processes, also those of an earlier run."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

# A start time is computed from the boot time, which moves a little when the clock is adjusted.
START_TIME_TOLERANCE_S = 2.0
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """Names one process for good: process ids are used again, (id, start time) pairs are not.

    `started` is in seconds since the epoch. The command line is no part of it: servers rewrite theirs.
    """

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> ProcessMark:
        """Mark a process that runs now. Raises psutil.NoSuchProcess when it has gone already."""
        return cls(pid, psutil.Process(pid).create_time())

    @classmethod
    def read(cls, path: Path) -> ProcessMark | None:
        """The mark in a file; None if there is none or a crash left half of one."""
        try:
            return cls(**json.loads(path.read_text("utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Replace the file by this mark, at once or not at all."""
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(asdict(self)), "utf-8")
        os.replace(temporary, path)

    def find(self) -> psutil.Process | None:
        """The process if it still runs (a zombie does not), else None."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < START_TIME_TOLERANCE_S
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None


def tree(process: psutil.Process) -> list[psutil.Process]:
    """The process and all its descendants now, parents first; empty when it has gone."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def freeze(process: psutil.Process) -> list[psutil.Process]:
    """SIGSTOP the whole tree, the parent first so that it starts no more children. Returns who was stopped."""
    _signal([process], signal.SIGSTOP)
    stopped = tree(process)
    _signal(stopped[1:], signal.SIGSTOP)
    return stopped


def thaw(process: psutil.Process) -> None:
    """SIGCONT the whole tree."""
    _signal(tree(process), signal.SIGCONT)


def kill(process: psutil.Process, timeout_s: float = 10.0) -> bool:
    """SIGKILL the whole tree and wait until it is gone (or only zombies are left). False if something is left.

    Descendants may have sessions and groups of their own (PostgreSQL's have), so a group is not enough.
    """
    victims = freeze(process)
    _signal(victims, signal.SIGKILL)
    return wait_until(lambda: not any(_alive(victim) for victim in victims), timeout_s)


def terminate(process: psutil.Process, how: signal.Signals, timeout_s: float) -> bool:
    """Ask a process to end, wait, then kill the tree. False if something is left."""
    thaw(process)
    members = tree(process)
    _signal([process], how)
    if wait_until(lambda: not _alive(process), timeout_s):
        # What outlives its parent's clean end has no reason to live.
        _signal([member for member in members[1:] if _alive(member)], signal.SIGKILL)
        return True
    return kill(process)


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Poll a condition until it holds (True) or the time is over (False)."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _signal(processes: list[psutil.Process], how: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(how)
        except psutil.NoSuchProcess:
            continue
