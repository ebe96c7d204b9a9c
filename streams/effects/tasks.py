"""The loop of a worker: claim what is due, do it under its lease, say what became of it.

    every 0.5 s, for each kind that has a place free: claim ─► thread: run ─► finish
                                                                        ├─ Transient ──► put off, or given up
                                                                        ├─ Permanent ──► dead letter, then given up
                                                                        ├─ NotNow ─────► put off, as if not begun
                                                                        ├─ Cancelled, CameToNothing ──► finish
                                                                        ├─ LeaseLost ──► nothing: it is another's
                                                                        └─ anything else ends the process

One kind never takes another's places. When the worker is told to stop, what runs is told so at its next check and
given back at once, not counted as an attempt.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from typing import Final, Protocol, assert_never

from streams.effects.kinds import Kind, NotNow
from streams.effects.retry import Again, Chance, Crash, GiveUp, after
from streams.runtime import logs, metrics
from streams.runtime.errors import Permanent, Unavailable
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.leases import CameToNothing, Cancelled, Lease, LeaseLost, Task, Tasks

POLL_S: Final = 0.5
GAUGES_EVERY_S: Final = 10.0
STOP_S: Final = 15.0
_AWAY_S: Final = 2.0
_log = logs.get(__name__)


class WritesLetters(Protocol):
    def write(self, task: Task, error: Exception) -> None:
        """Return when it is acknowledged; raises Unavailable."""
        ...


class Chore(Protocol):
    """What a worker does beside its tasks, now and then: ``step`` is called often and must be quick."""

    def step(self) -> None:
        """Raises Unavailable when something is away."""
        ...

    def close(self) -> None: ...


class Worker:
    def __init__(
        self,
        tasks: Tasks,
        kinds: Sequence[Kind],
        letters: WritesLetters,
        *,
        chores: Sequence[Chore] = (),
        chance: Chance = random.uniform,
        failpoint: Failpoint = disarmed,
        poll_s: float = POLL_S,
    ) -> None:
        self._tasks = tasks
        self._kinds = {kind.name: kind for kind in kinds}
        self._letters = letters
        self._chores = chores
        self._chance = chance
        self._failpoint = failpoint
        self._poll_s = poll_s
        self._running: dict[str, list[threading.Thread]] = {kind.name: [] for kind in kinds}
        self._crashed: BaseException | None = None
        self._stopping = threading.Event()
        self._measured_at: float | None = None

    def run(self, stop: threading.Event) -> None:
        """Work until ``stop`` is set, then give back what is under way. Waits while something is away.

        An error nobody foresaw is raised here, after what else was under way has been given back.
        """
        away = False
        try:
            while not stop.is_set() and self._crashed is None:
                try:
                    took = self._claim()
                    for chore in self._chores:
                        chore.step()
                    self._measure()
                except Unavailable as exc:
                    if not away:
                        _log.warning("waiting", reason=str(exc))
                    away = True
                    stop.wait(_AWAY_S)
                    continue
                if away:
                    _log.info("going on")
                away = False
                if not took:
                    stop.wait(self._poll_s)
        finally:
            self._stopping.set()
            for chore in self._chores:
                chore.close()
            until = time.monotonic() + STOP_S
            for threads in self._running.values():
                for thread in threads:
                    thread.join(max(0.0, until - time.monotonic()))
        if self._crashed is not None:
            raise self._crashed

    def _claim(self) -> bool:
        """Fill the places that are free; whether anything was claimed."""
        took = False
        for name, kind in self._kinds.items():
            running = self._running[name] = [thread for thread in self._running[name] if thread.is_alive()]
            while len(running) < kind.at_once and (lease := self._tasks.claim(name)) is not None:
                self._failpoint("work.claimed")
                thread = threading.Thread(target=self._attempt, args=(kind, lease), name=f"task-{name}", daemon=True)
                running.append(thread)
                thread.start()
                took = True
        return took

    def _attempt(self, kind: Kind, lease: Lease) -> None:
        task = lease.task
        began = time.monotonic()
        with logs.correlated(task.correlation_id, kind=kind.name, source=task.source_id, version=task.version):
            try:
                lease.stop_when(self._stopping.is_set)
                with lease:
                    outcome = self._ended(kind, lease)
            except LeaseLost as exc:
                outcome = "lost"
                _log.warning("a task became another's", attempt=task.attempt, reason=str(exc))
            except BaseException as exc:
                outcome = "crashed"
                _log.error("a task ended unexpectedly", attempt=task.attempt, exc_info=exc)
                self._crashed = exc
            took_s = time.monotonic() - began
            metrics.TASK_ATTEMPTS.labels(kind.name, outcome).inc()
            metrics.TASK_SECONDS.labels(kind.name).observe(took_s)
            if outcome == "done":
                latency_s = task.waited_s + took_s
                in_time = latency_s <= kind.target_s
                metrics.TASK_LATENCY_SECONDS.labels(kind.name).observe(latency_s)
                metrics.TASKS_DONE.labels(kind.name, "yes" if in_time else "no").inc()
            _log.info("task ended", outcome=outcome, attempt=task.attempt, seconds=round(took_s, 3))

    def _ended(self, kind: Kind, lease: Lease) -> str:
        """Run the task and say to the table what became of it; a word for the log. Raises LeaseLost."""
        task = lease.task
        try:
            if task.attempt > kind.retry.attempts:
                # Processes died of it, or lost it, as often as it may fail.
                raise Permanent(f"given up: {kind.retry.attempts} attempts ended without a word", cause="other")
            kind.run(lease)
        except Cancelled:
            lease.finish()
            return "cancelled"
        except NotNow as exc:
            lease.postpone(exc.retry_after_s)
            return "not_now"
        except CameToNothing as exc:
            _log.warning("a task came to nothing", reason=str(exc))
            lease.finish(exc)
            return "nothing"
        except LeaseLost:
            if not self._stopping.is_set() or lease.lost:
                raise
            lease.give_back()
            return "given_back"
        except Exception as exc:
            return self._failed(kind, lease, exc)
        self._failpoint("work.done")
        lease.finish()
        return "done"

    def _failed(self, kind: Kind, lease: Lease, error: Exception) -> str:
        decision = after(error, lease.task.attempt, kind.retry, self._chance)
        match decision:
            case Again(in_s=in_s):
                _log.warning("a task failed and is tried again", in_s=round(in_s, 1), reason=str(error))
                lease.put_off(error, in_s)
                return "put_off"
            case GiveUp():
                return self._given_up(kind, lease, error)
            case Crash():
                raise error
            case _:
                assert_never(decision)

    def _given_up(self, kind: Kind, lease: Lease, error: Exception) -> str:
        _log.error("a task is given up", reason=str(error), error_class=type(error).__name__)
        try:
            self._letters.write(lease.task, error)
        except Unavailable:
            # Its letter must be in the log before the row says so.
            lease.put_off(error, self._chance(0.0, kind.retry.longest_s))
            return "put_off"
        self._failpoint("work.buried")
        lease.bury(error)
        return "given_up"

    def _measure(self) -> None:
        now = time.monotonic()
        if self._measured_at is not None and now - self._measured_at < GAUGES_EVERY_S:
            return
        self._measured_at = now
        for kind, depth in self._tasks.depths().items():
            metrics.TASKS_WAITING.labels(kind).set(depth.waiting)
            metrics.TASKS_RUNNING.labels(kind).set(depth.running)
            metrics.TASKS_DEAD.labels(kind).set(depth.dead)
            metrics.TASKS_OLDEST_SECONDS.labels(kind).set(depth.oldest_s)
