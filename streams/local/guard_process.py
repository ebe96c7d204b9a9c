"""The guard's own program: standard library and psutil only, so that it is small and starts at once.

It reads "+ pid signal" and "- pid" lines. The operating system closes that pipe when the owner is gone, in whatever
way; then the guard stops what is left: first by the service's own clean signal, after GRACE_S by SIGKILL.
"""

from __future__ import annotations

import signal
import sys
import time

import psutil

GRACE_S = 15.0
POLL_S = 0.05


def main() -> None:
    """Read until the owner is gone, then end what is left."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
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
