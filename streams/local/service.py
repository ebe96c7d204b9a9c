"""One server process of ours: start it, wait until it answers, stop, kill, freeze and start it again."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGTERM, Signals

import psutil

from streams.local import ports, processes
from streams.local.errors import (
    BootFailedError,
    LocalStackError,
    NoDiskSpaceError,
    NotRunningError,
    PortTakenError,
    StaleProcessError,
    StartCancelledError,
)
from streams.local.guard import Guard
from streams.local.processes import ProcessMark

LOG_MAX_BYTES = 16 << 20
START_SPACE_BYTES = 256 << 20
STOP_TIMEOUT_S = 30.0
# A boot takes seconds; on a machine with ten busy processes per core it was seen to take 90 s.
START_TIMEOUT_S = 240.0
POLL_S = 0.05
MARK = "process.json"

_guard = Guard()


@dataclass(frozen=True, slots=True)
class Identity:
    """The operating-system user a child runs as; only root can choose one."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Command:
    """How to run a server. `environment` is added to a small clean one; `user` None means our own."""

    arguments: Sequence[str]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    user: Identity | None = None

    def run(self, log: Path, timeout_s: float) -> int:
        """Run to the end with output appended to the log; the exit code."""
        with log.open("ab") as output:
            return subprocess.run(
                list(self.arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=timeout_s,
                cwd=self.folder,
                env=self._environment(),
                check=False,
                user=self.user.uid if self.user else None,
                group=self.user.gid if self.user else None,
                extra_groups=[] if self.user else None,
            ).returncode

    def spawn(self, log: Path) -> subprocess.Popen[bytes]:
        """Start in a session of its own (so that Ctrl+C reaches only its owner), output appended to the log."""
        with log.open("ab") as output:
            return subprocess.Popen(
                list(self.arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=self.folder,
                env=self._environment(),
                user=self.user.uid if self.user else None,
                group=self.user.gid if self.user else None,
                extra_groups=[] if self.user else None,
            )

    def _environment(self) -> dict[str, str]:
        # Servers get no CLASSPATH, JAVA_TOOL_OPTIONS, PGPORT, KAFKA_* … of the user's shell.
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "TZ") if name in os.environ}
        return {**kept, "LC_ALL": "C.UTF-8", **self.environment}


class Service(ABC):
    """A server on a folder and a loopback port.

    The folder keeps its data over any kind of end, `kill` included; `start` on the same folder goes on with it.
    Methods are safe to call from several threads, one at a time each.
    """

    name: str
    stop_signal: Signals = SIGTERM

    def __init__(self, folder: Path, logs: Path, port: int) -> None:
        """Nothing is read, written or started yet. `folder` belongs to this service alone."""
        self.folder = folder
        self.port = port
        self.log = logs / f"{self.name}.log"
        self._mark_path = folder / MARK
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()
        self._cancelled = threading.Event()

    @abstractmethod
    def prepare(self) -> Command:
        """Bring the folder into a state the server can start on, and say how to start it. Repeatable."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server does its work for clients now. Called often; must not wait long or raise."""

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start and wait until clients are served. Does nothing when it runs already.

        A process left by a killed owner is stopped first. Raises NoDiskSpaceError, PortTakenError,
        StaleProcessError or BootFailedError; then nothing of this service runs.
        """
        with self._lock:
            if self.running:
                return
            self._cancelled.clear()
            for folder in (self.folder, self.log.parent):
                folder.mkdir(parents=True, exist_ok=True)
            self._check_space()
            self.stop_stale(self.folder)
            if not ports.becomes_free(self.port):
                raise PortTakenError(self.name, self.port)
            self._rotate_log()
            command = self.prepare()
            self._process = command.spawn(self.log)
            try:
                _guard.watch(self._process.pid, self.stop_signal)
                with suppress(psutil.NoSuchProcess):
                    ProcessMark.of(self._process.pid).write(self._mark_path)
                self._wait_until_it_answers(self._process, timeout_s)
            except BaseException:
                self.kill()
                raise

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End it cleanly; what does not end in time is killed. Does nothing when it does not run."""
        with self._lock:
            if self._process is not None:
                if self.running:
                    processes.terminate(psutil.Process(self._process.pid), self.stop_signal, timeout_s)
                self._reap()

    def kill(self) -> None:
        """SIGKILL to the server and all its children, as a power cut would. Does nothing when it does not run."""
        with self._lock:
            if self._process is not None:
                if self.running:
                    processes.kill(psutil.Process(self._process.pid))
                self._reap()

    def pause(self) -> None:
        """SIGSTOP to the server and all its children. Raises NotRunningError."""
        processes.freeze(psutil.Process(self.pid))

    def resume(self) -> None:
        """SIGCONT after `pause`. Raises NotRunningError."""
        processes.thaw(psutil.Process(self.pid))

    def restart(self) -> None:
        """Stop cleanly and start again: same folder, same port."""
        self.stop()
        self.start()

    @property
    def running(self) -> bool:
        """Whether the process exists (paused counts)."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The server's process id. Raises NotRunningError."""
        if self._process is None or not self.running:
            raise NotRunningError(self.name)
        return self._process.pid

    def cancel(self) -> None:
        """Let a `start` that waits in another thread give up with StartCancelledError."""
        self._cancelled.set()

    @classmethod
    def stop_stale(cls, folder: Path) -> None:
        """Stop the process that an earlier, killed owner of the folder left. Raises StaleProcessError.

        The caller holds the folder's lock, so whoever the process belonged to is gone.
        """
        path = folder / MARK
        mark = ProcessMark.read(path)
        if mark is not None and (process := mark.find()) is not None:
            try:
                gone = processes.terminate(process, cls.stop_signal, STOP_TIMEOUT_S)
            except psutil.AccessDenied:
                gone = False
            if not gone:
                raise StaleProcessError(cls.name, mark.pid)
        path.unlink(missing_ok=True)

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not (ports.is_listening(self.port) and self.answers()):
            if (code := process.poll()) is not None:
                raise self._boot_failure(f"it ended with exit code {code}")
            if self._cancelled.is_set():
                raise StartCancelledError(f"Starting {self.name}")
            if time.monotonic() >= deadline:
                raise self._boot_failure(f"it did not answer within {timeout_s:.0f} s")
            time.sleep(POLL_S)

    def _boot_failure(self, reason: str) -> LocalStackError:
        # Somebody may have taken the port between the check and the server's own bind.
        if self._process is not None and self._process.poll() is not None and not ports.is_free(self.port):
            return PortTakenError(self.name, self.port)
        return BootFailedError(self.name, reason, self.log)

    def _reap(self) -> None:
        assert self._process is not None
        self._process.wait()
        _guard.forget(self._process.pid)
        self._process = None
        self._mark_path.unlink(missing_ok=True)

    def _check_space(self) -> None:
        if (free := shutil.disk_usage(self.folder).free) < START_SPACE_BYTES:
            raise NoDiskSpaceError(self.folder, START_SPACE_BYTES, free)

    def _rotate_log(self) -> None:
        # Only at a start: no server is writing to it now.
        if self.log.exists() and self.log.stat().st_size > LOG_MAX_BYTES:
            os.replace(self.log, self.log.with_suffix(".log.1"))
