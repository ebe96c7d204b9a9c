"""Ends a worker in which something does not return.

A stall raises no exception. librdkafka was seen to block in a transactional call far beyond its timeout
after a broker was killed, and agent code can block the loop. A thread cannot be interrupted, the process
can be ended, and nothing is lost by it. Runs in its own thread, since the loop may be what stands still.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from .batch import Batch, BatchState
from .config import EngineConfig
from .errors import Crash, EngineError, Hung
from .unit import Unit

CHECK_EVERY = 1.0


class Watchdog:
    """Calls ``fail`` with the first finding, then ``hard_exit`` if the worker is still there after ``grace``."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        commits: Callable[[], Mapping[Batch, float]],
        poll_beat: Callable[[], float | None],
        units: Callable[[], Iterable[Unit]],
        fail: Callable[[BaseException], None],
        hard_exit: Callable[[], None],
        grace: float = 15.0,
    ) -> None:
        """``commits``: when running commits began; ``poll_beat``: last turn, ``None`` when not running."""
        self._config = config
        self._commits = commits
        self._poll_beat = poll_beat
        self._units = units
        self._fail = fail
        self._hard_exit = hard_exit
        self._grace = grace
        self._quit = threading.Event()
        self._ending_since: float | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        self._quit.set()

    def ending(self) -> None:
        """The worker failed and is on its way out; give it ``grace`` from now."""
        if self._ending_since is None:
            self._ending_since = time.monotonic()

    def find(self, now: float) -> EngineError | None:
        """Return what stands still at monotonic time ``now``."""
        config = self._config
        commits = self._commits()
        for unit in self._units():
            batch = unit.inflight
            if batch is None:
                continue
            # One of a unit that was given away harms nobody: who is given that number again waits for its end.
            since, within = commits.get(batch, now), config.commit_timeout
            if (waits := unit.waiting_since) is not None:
                # The transaction is over. What hangs of it is to be refused, which takes the hanging timeout.
                since, within = waits, config.hanging_timeout + 2 * config.operation_timeout
            if now - since > within:
                return Hung(f"{batch.at}: a commit does not return in {within:g} s: {unit.step}")
        beat = self._poll_beat()
        limit = 3 * config.operation_timeout + config.quiesce_timeout + 10
        if beat is not None and now - beat > limit:
            return Hung(f"the poll thread has not moved for {limit:g} s")
        for unit in self._units():
            batch = unit.inflight
            if (
                batch is not None
                and not unit.dead
                and batch.state in (BatchState.QUEUED, BatchState.STARTED)
                and now - batch.since > config.batch_timeout
            ):
                return Crash(
                    f"{batch.at}: the agent has not come back for the next batch in "
                    f"{config.batch_timeout:g} s (state {batch.state.name})"
                )
        return None

    def _run(self) -> None:
        while not self._quit.wait(CHECK_EVERY):
            now = time.monotonic()
            if self._ending_since is not None:
                if now - self._ending_since > self._grace:
                    self._hard_exit()
                continue
            found = self.find(now)
            if found is not None:
                self.ending()
                self._fail(found)
