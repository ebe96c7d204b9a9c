"""Tasks and who may do them now: rows of core.tasks, claimed under a lease that PostgreSQL's clock ends.

    wanted ─claim─► leased ─finish──────────► done (and wanted again, when it was requested meanwhile)
       ▲              │ ├─put_off──► wanted, later
       │              │ ├─give_back► wanted, at once; not counted as an attempt
       │              │ └─bury─────► dead, until it is requested again
       └──── lease_until passed ────┘ anybody may claim it, under a new token

No worker's clock decides anything: each statement compares with ``now()`` of the server, and what a worker writes
about a task it holds names its token. A worker that was frozen past its lease therefore changes nothing: its
statement finds no row, and it is told LeaseLost. The name of a lock is its row's key: ``lock:scan:source:{id}`` is
(scan, id).
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from streams.runtime import leases_sql as sql
from streams.runtime import logs, metrics
from streams.runtime.blocking import BlockingDatabase, Connection
from streams.runtime.errors import PlayheadError, Unavailable

TTL_S: Final = 30.0
RENEWALS_PER_TTL: Final = 3
CHECKED_S: Final = 0.2
_RETRY_S: Final = 0.2
_ERROR_CHARS_MAX: Final = 500
_NOTHING_SAID: Final = {"error": None, "error_class": None}
_log = logs.get(__name__)


class LeaseLost(PlayheadError):
    """This task is no longer ours: nothing may be written about it any more."""


class CameToNothing(PlayheadError):
    """The task was done as far as it can be, and is not to be tried again by itself: what it is of is not there."""


class Cancelled(PlayheadError):
    """An operator does not want it any more."""


@dataclass(frozen=True, slots=True)
class Task:
    """A claimed task. ``version``: what is wanted, and done when it is finished. ``begun``: the version somebody
    began before without finishing it; None: nobody did. ``attempt``: 1 for the first. ``waited_s``: since it was
    requested."""

    kind: str
    key: str
    source_id: str
    log_epoch: int
    version: int
    begun: int | None
    payload: Mapping[str, Any]
    correlation_id: str
    attempt: int
    waited_s: float
    token: str = field(repr=False)
    done_version: int = -1

    @property
    def full(self) -> bool:
        """Whether any request since it was done last asked for everything."""
        return int(self.payload.get("full", -1)) > self.done_version


@dataclass(frozen=True, slots=True)
class Waits:
    """``wanted``: it is not done; ``running``: somebody is at it."""

    wanted: bool
    running: bool


@dataclass(frozen=True, slots=True)
class Depth:
    """How a kind fares: tasks that wait, that run, that were given up; seconds since the oldest was requested."""

    waiting: int
    running: int
    dead: int
    oldest_s: float


class Tasks:
    """The rows of core.tasks, as those who do them see them. Safe for threads. All methods raise DatabaseAway."""

    def __init__(self, database: BlockingDatabase, *, ttl_s: float = TTL_S) -> None:
        """``ttl_s``: how long a lease lasts unless it is renewed."""
        self._database = database
        self.ttl_s = ttl_s

    def claim(self, kind: str) -> Lease | None:
        """The task of this kind that has been due for longest, now the caller's; None when there is none.

        Enter what is returned, to keep it.
        """

        def ask(connection: Connection) -> tuple[Any, ...] | None:
            named = {"kind": kind, "random": secrets.token_hex(8), "ttl": self.ttl_s}
            return connection.execute(sql.CLAIM.encode(), named).fetchone()

        asked = time.monotonic()
        row = self._database.run(ask)
        if row is None:
            return None
        *fields, expired = row
        if expired:
            metrics.LEASES_EXPIRED.labels(kind).inc()
        return Lease(self, Task(*fields), asked)

    def waits(self, kind: str, key: str) -> Waits:
        """Whether something is wanted of this task."""

        def ask(connection: Connection) -> tuple[Any, ...] | None:
            return connection.execute(sql.WAITS.encode(), {"kind": kind, "key": key}).fetchone()

        row = self._database.run(ask)
        return Waits(False, False) if row is None else Waits(*row)

    def depths(self) -> dict[str, Depth]:
        """How each kind fares that has a row."""
        rows = self._database.run(lambda connection: connection.execute(sql.DEPTH.encode()).fetchall())
        return {kind: Depth(*counts) for kind, *counts in rows}

    def owned(self, task: Task, statement: str, **values: object) -> tuple[Any, ...] | None:
        """Run a statement that names the task as those of leases_sql do. Returns its row, if it returns rows.

        Raises LeaseLost when the task is not the caller's.
        """
        named = {"kind": task.kind, "key": task.key, "token": task.token, "log_epoch": task.log_epoch, **values}

        def ask(connection: Connection) -> tuple[bool, tuple[Any, ...] | None]:
            done = connection.execute(statement.encode(), named)
            return done.rowcount == 1, done.fetchone() if done.description else None

        ours, row = self._database.run(ask)
        if not ours:
            metrics.LEASES_LOST.labels(task.kind).inc()
            raise LeaseLost(f"the lease of {task.kind} {task.key} is over")
        return row


class Lease:
    """Keeps a claimed task while it is entered: a thread renews it at a third of its time.

    Every method raises LeaseLost when the task is not ours any more. Leaving it does not let the task go: exactly one
    of ``finish``, ``put_off``, ``postpone``, ``give_back`` and ``bury`` does.
    """

    def __init__(self, tasks: Tasks, task: Task, claimed_at: float) -> None:
        """``claimed_at``: when the claim was sent, by time.monotonic()."""
        self.task = task
        self._tasks = tasks
        self._version = task.version
        self._stop = threading.Event()
        self._stopping: Callable[[], bool] = lambda: False
        self._checked_at: float | None = None
        self.lost = False
        """Whether a renewal was refused."""
        # Ours for sure until then, as far as this machine's clock goes on: it can only end waiting earlier.
        self._held_until = claimed_at + tasks.ttl_s
        self._thread = threading.Thread(target=self._keep, name=f"lease-{task.kind}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def stop_when(self, asked: Callable[[], bool]) -> None:
        """From now on ``check`` raises LeaseLost as well when ``asked()``: this process is to end."""
        self._stopping = asked

    @property
    def version(self) -> int:
        """What is being done: the version that was claimed, or the one ``begin`` put in its place."""
        return self._version

    def check(self, *, anew: bool = False) -> None:
        """Return when the task is still ours and wanted. Raises Cancelled when it is not wanted any more.

        An answer counts for CHECKED_S, so that it may be called often; with ``anew`` only one given from now on does,
        for whoever asks whether the task was still ours after a write. While the database is away it waits for it, as
        long as the lease would have lasted.
        """
        if self._stopping():
            raise LeaseLost("this worker is to end")
        if self.lost:
            raise LeaseLost(f"the lease of {self.task.kind} {self.task.key} is over")
        asked = time.monotonic()
        if not anew and self._checked_at is not None and asked - self._checked_at < CHECKED_S:
            return
        row = self._patiently(sql.CHECK, version=self.task.version)
        if row is not None and row[0]:
            raise Cancelled(f"{self.task.kind} of {self.task.key} was cancelled")
        self._checked_at = asked

    def begin(self, version: int) -> None:
        """Say that what is done from here on is ``version``, in place of the one that was claimed."""
        self._patiently(sql.BEGIN, begun=version)
        self._version = version

    def say(self, progress: Mapping[str, object]) -> None:
        """Keep how far it is, for people. The database being away is no reason to stop."""
        try:
            self._tasks.owned(self.task, sql.PROGRESS, progress=json.dumps(progress))
        except Unavailable:
            return

    def finish(self, error: Exception | None = None) -> None:
        """It is done, up to ``version``; ``error``: it came to nothing, and is not to be tried again by itself."""
        self._patiently(sql.FINISH, done=self._version, **(_said(error) if error is not None else _NOTHING_SAID))

    def put_off(self, error: Exception, delay_s: float) -> None:
        """It failed, and is to be tried again in ``delay_s``."""
        self._patiently(sql.PUT_OFF, delay=delay_s, **_said(error))

    def give_back(self) -> None:
        """Somebody else shall do it: this attempt does not count."""
        self._patiently(sql.GIVE_BACK)

    def postpone(self, delay_s: float) -> None:
        """It is not its turn: again in ``delay_s``, and this attempt does not count."""
        self._patiently(sql.POSTPONE, delay=delay_s)

    def bury(self, error: Exception) -> None:
        """It is given up until it is requested again."""
        self._patiently(sql.BURY, last=max(self._version, self.task.version), **_said(error))

    def _patiently(self, statement: str, **values: object) -> tuple[Any, ...] | None:
        while True:
            try:
                return self._tasks.owned(self.task, statement, **values)
            except Unavailable:
                if time.monotonic() >= self._held_until or self._stopping():
                    raise LeaseLost(
                        f"the lease of {self.task.kind} {self.task.key} can't be checked, and is over by now"
                    ) from None
                time.sleep(_RETRY_S)

    def _keep(self) -> None:
        pause_s = self._tasks.ttl_s / RENEWALS_PER_TTL
        while not self._stop.wait(pause_s):
            asked = time.monotonic()
            try:
                self._tasks.owned(self.task, sql.RENEW, ttl=self._tasks.ttl_s)
            except Unavailable:
                pause_s = _RETRY_S
                continue
            except LeaseLost as exc:
                self.lost = True
                if not self._stop.is_set():
                    _log.warning("a lease was lost", kind=self.task.kind, key=self.task.key, reason=str(exc))
                return
            self._held_until = asked + self._tasks.ttl_s
            pause_s = self._tasks.ttl_s / RENEWALS_PER_TTL


def _said(error: Exception) -> dict[str, str]:
    return {"error": str(error)[:_ERROR_CHARS_MAX].replace("\0", "\\0"), "error_class": type(error).__name__}
