"""Keeps the roles of one machine running: each its own process, started again when it ends, logs told apart.

What a role's exit code means (streams/runtime/errors.py): 78 is a decision for an operator, so everything is
stopped and the reason shown; anything else, 70 and a clean end included, is started again after a back-off
that doubles from 0.5 s to 30 s and starts over once the role has lived for a minute.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from streams.local import processes
from streams.local.guard import Guard
from streams.runtime import metrics
from streams.runtime.errors import EXIT_CONFIGURATION, ConfigurationError

BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 30.0
SETTLED_AFTER_S = 60.0
STOP_TIMEOUT_S = 20.0
TAIL_LINES = 20


@dataclass(frozen=True, slots=True)
class Role:
    """One process to keep running. ``environment`` is added to this process's own."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Running:
    role: Role
    process: subprocess.Popen[str] | None = None
    started: float = 0.0
    starts: int = 0
    backoff_s: float = BACKOFF_FIRST_S
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))


class Supervisor:
    """Starts roles and watches them until ``stop``. One thread a role; safe to call from any thread.

    ``on_line(role, line)`` gets every line a role writes; all lines also go to ``logs/<role>.log``.
    ``state_file`` always names the processes that run now, for people and for tests.
    """

    def __init__(
        self,
        roles: Sequence[Role],
        *,
        logs: Path,
        state_file: Path,
        on_line: Callable[[str, str], None] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``environment`` is what every role gets beside its own, by default this process's."""
        self._environment = dict(os.environ if environment is None else environment)
        self._roles = {role.name: _Running(role) for role in roles}
        self._logs = logs
        self._state_file = state_file
        self._on_line = on_line or (lambda _role, _line: None)
        self._guard = Guard()
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._refused: ConfigurationError | None = None

    def start(self) -> None:
        """Start every role; returns at once. Whether a role is ready is for its own health check to say."""
        self._logs.mkdir(parents=True, exist_ok=True)
        for running in self._roles.values():
            thread = threading.Thread(target=self._keep, args=(running,), name=f"role-{running.role.name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def wait(self, timeout_s: float | None = None) -> None:
        """Block until ``stop`` is called or a role refuses to run; then ConfigurationError with its last lines."""
        self._stopping.wait(timeout_s)
        self.raise_refusal()

    def raise_refusal(self) -> None:
        """Raise the refusal of a role, if any role has ended with exit code 78."""
        if self._refused is not None:
            raise self._refused

    def stop(self) -> None:
        """SIGTERM to every role, SIGKILL to what is left after STOP_TIMEOUT_S. May be called twice."""
        self._stopping.set()
        with self._changed:
            running = [r.process for r in self._roles.values() if r.process and r.process.poll() is None]
        for process in running:
            _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                processes.kill(psutil.Process(process.pid))
        for thread in self._threads:
            thread.join(STOP_TIMEOUT_S)
        self._guard.close()
        self._state_file.unlink(missing_ok=True)

    def pid(self, name: str) -> int | None:
        """The process id of a role, None while it is down."""
        process = self._roles[name].process
        return process.pid if process is not None and process.poll() is None else None

    def starts(self, name: str) -> int:
        """How often a role was started."""
        return self._roles[name].starts

    def signal(self, name: str, how: signal.Signals) -> int | None:
        """Send a signal to a role, for fault tests. Returns the process id it went to, None when it was down."""
        pid = self.pid(name)
        if pid is not None:
            os.kill(pid, how)
        return pid

    def _keep(self, running: _Running) -> None:
        while not self._stopping.is_set():
            code = self._run_once(running)
            if self._stopping.is_set():
                return
            if code == EXIT_CONFIGURATION:
                last = "\n".join(running.tail)
                self._refused = ConfigurationError(f"{running.role.name} refuses to run:\n{last}")
                self._stopping.set()
                return
            metrics.CRASHES.labels(running.role.name).inc()
            if time.monotonic() - running.started > SETTLED_AFTER_S:
                running.backoff_s = BACKOFF_FIRST_S
            self._on_line(running.role.name, f"ended with exit code {code}; starting again in {running.backoff_s:g} s")
            self._stopping.wait(running.backoff_s)
            running.backoff_s = min(running.backoff_s * 2, BACKOFF_MAX_S)

    def _run_once(self, running: _Running) -> int:
        role = running.role
        with self._changed:
            if self._stopping.is_set():
                return 0
            running.process = process = subprocess.Popen(
                list(role.arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                # A session of its own: Ctrl-C reaches the supervisor, which ends the roles in order.
                start_new_session=True,
                env={**self._environment, **role.environment},
            )
            running.started = time.monotonic()
            running.starts += 1
        self._guard.watch(process.pid, signal.SIGTERM)
        self._write_state()
        assert process.stdout is not None
        with process.stdout as lines, (self._logs / f"{role.name}.log").open("a", encoding="utf-8") as log:
            for line in lines:
                log.write(line)
                log.flush()
                running.tail.append(line.rstrip("\n"))
                self._on_line(role.name, line.rstrip("\n"))
        code = process.wait()
        self._guard.forget(process.pid)
        self._write_state()
        return code

    def _write_state(self) -> None:
        with self._changed:
            state = {
                "supervisor": os.getpid(),
                "roles": {name: {"pid": self.pid(name), "starts": r.starts} for name, r in self._roles.items()},
            }
            self._state_file.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._state_file.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(state, indent=1), encoding="utf-8")
            temporary.replace(self._state_file)


def _signal(process: subprocess.Popen[str], how: signal.Signals) -> None:
    try:
        process.send_signal(how)
    except ProcessLookupError:
        return
