"""The event loop's side: hand batches to agents, commit what comes back, one per unit at a time.

While one unit commits in a pool thread (network, GIL released) the agent works on another's batch, so a
single agent task keeps the loop busy.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from confluent_kafka import Message

from .batch import Batch, BatchState
from .config import EngineConfig
from .errors import Aborted, Closed, Crash
from .flood import FloodGuard
from .unit import Unit

log = logging.getLogger(__name__)

Fail = Callable[[BaseException], None]


class Delivery:
    """All methods but :meth:`wake` run on the event loop."""

    def __init__(
        self,
        config: EngineConfig,
        units: Callable[[], Mapping[int, Unit]],
        hand: Callable[[Batch], Awaitable[None]],
        fail: Fail,
        pool: ThreadPoolExecutor,
        space_freed: Callable[[], None],
    ) -> None:
        """``hand`` puts a batch into the agent's queue; ``fail`` ends the worker, the first call wins."""
        self._config = config
        self._units = units
        self._hand = hand
        self._fail = fail
        self._pool = pool
        self._space_freed = space_freed
        self._flood = FloodGuard(config.flood_run, config.flood_share, config.flood_window)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work = asyncio.Event()
        self._settled = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        #: The worker is ending: no agent will finish a started batch any more.
        self.ending = False
        #: Running commits and when they began; the watchdog reads it from its thread. What the loop has not heard of
        #: yet is over all the same: an agent may hold the loop for longer than a commit may take.
        self.commits: dict[Batch, float] = {}
        #: Batches of commits whose end the loop has not heard of.
        self._unheard: set[Batch] = set()
        #: Units whose store is being flushed.
        self._flushing: set[Unit] = set()

    def wake(self) -> None:
        """Look for work again. Callable from any thread."""
        loop = self._loop
        if loop is not None and not self._work.is_set() and not loop.is_closed():
            loop.call_soon_threadsafe(self._work.set)

    async def run(self, flowing: Callable[[], bool], stopping: Callable[[], bool]) -> None:
        """Deliver until ``stopping``; hold back while not ``flowing`` (a rebalance)."""
        self._loop = asyncio.get_running_loop()
        while not stopping():
            self._work.clear()
            soonest = await self._deliver_ready() if flowing() else None
            self._flush_idle()
            try:
                await asyncio.wait_for(self._work.wait(), 1.0 if soonest is None else soonest)
            except TimeoutError:
                pass

    async def _deliver_ready(self) -> float | None:
        """Deliver to every free unit; return when a lingering one is due, in seconds."""
        soonest: float | None = None
        for unit in list(self._units().values()):
            if unit.inflight is not None or not unit.ready or unit.dead or not unit.buffer.size:
                continue
            wait = self._linger_left(unit)
            if wait > 0:
                soonest = wait if soonest is None else min(wait, soonest)
                continue
            taken = unit.buffer.take(self._config.max_batch)
            if taken is not None:
                self._space_freed()
                batch = self._batch(unit, *taken, attempt=1)
                if batch is not None:
                    await self._deliver(unit, batch)
        return soonest

    def _flush_idle(self) -> None:
        """Have the stores of units without work written: nothing else would bring them up to date."""
        for unit in list(self._units().values()):
            if unit.inflight is None and unit.ready and not unit.dead and unit.flush_due and unit not in self._flushing:
                self._flushing.add(unit)
                self._pool.submit(unit.flush).add_done_callback(partial(self._flushed, unit))

    def _flushed(self, unit: Unit, done: Future[None]) -> None:
        self._flushing.discard(unit)
        error = done.exception()
        if error is not None:
            self._fail(error)

    def _linger_left(self, unit: Unit) -> float:
        if not self._config.linger or unit.buffer.weight >= self._config.max_batch:
            return 0.0
        return unit.buffer.since + self._config.linger - time.monotonic()

    def _batch(self, unit: Unit, topic: str, records: Sequence[Message], attempt: int) -> Batch | None:
        """Make the batch that is in flight from now on; ``None`` when the unit was lost and closed this moment."""
        try:
            rows = unit.store
        except Closed:
            return None
        batch = Batch(
            config=self._config,
            rows=rows,
            owner=_Handle(self, unit),
            topic=topic,
            topic_id=unit.sources[topic],
            partition=unit.partition,
            records=records,
            attempt=attempt,
        )
        batch.since = time.monotonic()
        unit.inflight = batch
        return batch

    async def _deliver(self, unit: Unit, batch: Batch) -> None:
        try:
            self._config.failpoint("fetched")
            await self._hand(batch)
        except Exception as error:
            self._end(unit, error)

    def started(self, unit: Unit, batch: Batch) -> bool:
        """Let the agent take the batch, unless its unit is lost: the store then stays open until it is done."""
        unit.idle.clear()  # before the look, as whoever closes the unit says so before it waits
        if unit.dead:
            unit.idle.set()
            batch.state = BatchState.DROPPED
            return False
        batch.state = BatchState.STARTED
        return True

    def finished(self, unit: Unit, batch: Batch) -> None:
        """The agent came back for the next batch. That is the acknowledgement: commit this one."""
        batch.state = BatchState.FINISHED
        unit.idle.set()
        try:
            self._config.failpoint("table_written")
            self._flood.check(batch.dead, batch.last_dead)
        except Exception as error:
            self._end(unit, error)
            return
        loop = asyncio.get_running_loop()
        self._unheard.add(batch)
        self.commits[batch] = time.monotonic()

        def over(done: Future[float]) -> None:
            del self.commits[batch]
            loop.call_soon_threadsafe(self._committed, unit, batch, done)

        self._pool.submit(unit.commit, batch).add_done_callback(over)

    def _committed(self, unit: Unit, batch: Batch, done: Future[float]) -> None:
        self._unheard.discard(batch)
        error = done.exception()
        metrics = self._config.metrics
        if error is None:
            self._flood.count(batch.guarded, batch.dead)
            metrics.batch_committed(batch.topic, batch.partition, len(batch), done.result())
            if batch.dead:
                metrics.dead_letters(batch.topic, batch.partition, len(batch.dead))
            self._free(unit)
        elif unit.dead or isinstance(error, Closed):
            # Given away while it committed: the next owner has settled the outcome by fencing us.
            log.info("unit %s: given away: %s", unit.partition, error)
            self._free(unit)
        elif isinstance(error, Aborted):
            metrics.batch_aborted(batch.topic, batch.partition)
            self._again(unit, batch, error)
        else:
            self._end(unit, error)

    def _again(self, unit: Unit, batch: Batch, error: Aborted) -> None:
        """Deliver the same records once more, with nothing left of the first try."""
        batch.state = BatchState.DROPPED
        if batch.attempt >= self._config.max_attempts:
            first = batch.records[0].offset()
            gave_up = Crash(f"{batch.topic}[{batch.partition}]@{first}: aborted {batch.attempt} times: {error}")
            self._end(unit, gave_up)
            return
        log.warning("unit %s: attempt %s aborted: %s", unit.partition, batch.attempt, error)
        again = self._batch(unit, batch.topic, batch.records, batch.attempt + 1)
        if again is None:
            self._free(unit)
            return
        asyncio.get_running_loop().call_later(min(0.05 * 2**batch.attempt, 2.0), self._redeliver, unit, again)

    def _redeliver(self, unit: Unit, batch: Batch) -> None:
        if unit.inflight is not batch or batch.state is not BatchState.QUEUED:
            return  # taken back meanwhile
        if unit.dead:
            self._free(unit)
            return
        task = asyncio.get_running_loop().create_task(self._deliver(unit, batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _free(self, unit: Unit) -> None:
        unit.inflight = None
        self._work.set()
        self._settled.set()

    def _end(self, unit: Unit, error: BaseException) -> None:
        log.error("unit %s: %r", unit.partition, error)
        self.end()
        self._fail(error)

    def end(self) -> None:
        """The worker is ending: wait for running commits only, and let stores close."""
        self.ending = True
        for unit in list(self._units().values()):
            unit.idle.set()
        self._settled.set()

    def _take_back(self, unit: Unit) -> None:
        """A delivered batch that no agent has started returns to the head of the buffer."""
        batch = unit.inflight
        if batch is not None and batch.state is BatchState.QUEUED:
            batch.state = BatchState.DROPPED
            unit.buffer.put_back(batch.topic, batch.records)
            self._free(unit)

    def _pending(self, unit: Unit) -> bool:
        batch = unit.inflight
        if batch is None or unit.dead or unit.waiting_since is not None:
            return False  # waits for what is out of its hands: its next owner looks at it as well
        return batch in self._unheard or (batch.state is BatchState.STARTED and not self.ending)

    async def quiesce(self) -> None:
        """Take back what no agent has started, let the rest finish and commit, within the timeout."""
        deadline = time.monotonic() + self._config.quiesce_timeout
        while True:
            self._settled.clear()
            units = list(self._units().values())
            for unit in units:
                self._take_back(unit)
            left = deadline - time.monotonic()
            if not any(self._pending(unit) for unit in units):
                return
            if left <= 0:
                log.error("batches not finished in %s s are abandoned", self._config.quiesce_timeout)
                return
            try:
                await asyncio.wait_for(self._settled.wait(), min(left, 0.5))
            except TimeoutError:
                pass


class _Handle:
    """Ties a batch to its unit: the unit may be gone from the group when the agent is done."""

    __slots__ = ("_delivery", "_unit")

    def __init__(self, delivery: Delivery, unit: Unit) -> None:
        self._delivery = delivery
        self._unit = unit

    def started(self, batch: Batch) -> bool:
        return self._delivery.started(self._unit, batch)

    def finished(self, batch: Batch) -> None:
        self._delivery.finished(self._unit, batch)
