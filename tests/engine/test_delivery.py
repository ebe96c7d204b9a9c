"""Batches between buffer, agent and commit, on a real event loop with a fake broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from streams.engine import Crash, FloodError
from streams.engine.batch import Batch, BatchState
from streams.engine.config import EngineConfig
from streams.engine.delivery import Delivery
from streams.engine.unit import Unit
from streams.local.processes import wait_until

from .fakes import FakeProducer, Letters, config, kafka_error, record, restored_unit


class Bench:
    """One unit and its delivery; ``handed`` holds what an agent would find in its queue."""

    def __init__(self, settings: EngineConfig) -> None:
        self.producer = FakeProducer()
        self.unit = restored_unit(settings, self.producer)
        self.units: dict[int, Unit] = {0: self.unit}
        self.handed: asyncio.Queue[Batch] = asyncio.Queue()
        self.failures: list[BaseException] = []
        self.failed = asyncio.Event()
        self.pool = ThreadPoolExecutor(1)
        self.flowing = True
        self.delivery = Delivery(settings, lambda: self.units, self.handed.put, self._fail, self.pool, lambda: None)

    def _fail(self, error: BaseException) -> None:
        self.failures.append(error)
        self.failed.set()

    async def take(self) -> Batch:
        batch = await asyncio.wait_for(self.handed.get(), 10)
        assert batch.owner.started(batch)
        return batch

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not holds():
                await asyncio.sleep(0.005)


@asynccontextmanager
async def running(settings: EngineConfig) -> AsyncIterator[Bench]:
    bench = Bench(settings)
    stop = asyncio.Event()
    task = asyncio.create_task(bench.delivery.run(lambda: bench.flowing, stop.is_set))
    await asyncio.sleep(0)
    try:
        yield bench
    finally:
        stop.set()
        bench.delivery.wake()
        await task
        bench.pool.shutdown()
        bench.unit.idle.set()
        bench.unit.close(0)


def run(test: Callable[[Bench], Any], settings: EngineConfig) -> None:
    async def main() -> None:
        async with running(settings) as bench:
            await test(bench)

    asyncio.run(main())


def test_invariant_05_given_a_batch_in_flight_then_no_other_is_delivered_until_it_is_durable(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.unit.buffer.add("source", [record(n) for n in range(5)])
        bench.delivery.wake()
        first = await bench.take()
        bench.delivery.wake()
        await asyncio.sleep(0.05)
        assert bench.handed.empty()
        first.owner.finished(first)
        second = await bench.take()
        assert [tp.offset for tp in bench.producer.offsets] == [2]
        assert [m.offset() for m in second.records] == [2, 3]

    run(test, config(tmp_path, max_batch=2, max_buffered=10))


def test_given_an_abort_then_the_same_records_come_again_with_nothing_of_the_first_try(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.producer.errors["commit"] = [kafka_error(abort=True)]
        bench.unit.buffer.add("source", [record(0)])
        bench.delivery.wake()
        first = await bench.take()
        first.send("out", b"1", record=first.records[0])
        first.owner.finished(first)
        again = await bench.take()
        assert again is not first
        assert (again.attempt, again.outputs, again.records) == (2, [], first.records)
        again.owner.finished(again)
        await bench.until(lambda: bench.unit.inflight is None)
        assert first.state is BatchState.DROPPED
        assert bench.failures == []

    run(test, config(tmp_path))


def test_given_a_commit_that_is_over_while_an_agent_holds_the_loop_then_it_is_not_taken_for_hung(
    tmp_path: Path,
) -> None:
    async def test(bench: Bench) -> None:
        committed = threading.Event()
        commit = bench.unit.commit

        def heard(batch: Batch) -> float:
            took = commit(batch)
            committed.set()
            return took

        bench.unit.commit = heard  # type: ignore[method-assign]
        bench.unit.buffer.add("source", [record(0)])
        bench.delivery.wake()
        batch = await bench.take()
        batch.owner.finished(batch)
        # From here on the loop does not turn.
        assert committed.wait(10)
        assert wait_until(lambda: not bench.delivery.commits, 10)
        assert bench.delivery._pending(bench.unit), "what follows a commit is still to be done"
        await bench.until(lambda: not bench.delivery._pending(bench.unit))

    run(test, config(tmp_path))


def test_given_a_flush_that_takes_long_then_no_other_of_its_unit_waits_behind_it(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        flush, flushes, may_end = bench.unit.flush, 0, threading.Event()

        def slow() -> None:
            nonlocal flushes
            flushes += 1
            assert may_end.wait(10)
            flush()

        bench.unit.flush = slow  # type: ignore[method-assign]
        bench.unit.buffer.add("source", [record(0)])
        bench.delivery.wake()
        batch = await bench.take()
        batch.owner.finished(batch)
        await bench.until(lambda: bench.unit.inflight is None)
        bench.unit.store._flush_interval = 0.0
        for _ in range(3):
            assert bench.unit.flush_due
            bench.delivery._flush_idle()
        may_end.set()
        await bench.until(lambda: not bench.unit.flush_due)
        bench.pool.shutdown()
        assert flushes == 1

    run(test, config(tmp_path, flush_interval=3600.0))


def test_given_too_many_aborts_then_the_worker_ends(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.producer.errors["commit"] = [kafka_error(abort=True)] * 2
        bench.unit.buffer.add("source", [record(0)])
        bench.delivery.wake()
        for _ in range(2):
            batch = await bench.take()
            batch.owner.finished(batch)
        await asyncio.wait_for(bench.failed.wait(), 10)
        assert isinstance(bench.failures[0], Crash)
        assert "aborted 2 times" in str(bench.failures[0])

    run(test, config(tmp_path, max_attempts=2))


@pytest.mark.parametrize("error", [kafka_error(fatal=True), SystemError("?"), RuntimeError("?")])
def test_invariant_10_and_pitfall_10_given_any_other_error_then_the_worker_ends(
    tmp_path: Path, error: BaseException
) -> None:
    async def test(bench: Bench) -> None:
        bench.producer.errors["commit"] = [error]
        bench.unit.buffer.add("source", [record(0)])
        bench.delivery.wake()
        batch = await bench.take()
        batch.owner.finished(batch)
        await asyncio.wait_for(bench.failed.wait(), 10)
        assert bench.handed.empty()

    run(test, config(tmp_path))


def test_given_a_unit_lost_while_it_commits_then_its_error_is_not_the_workers_end(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.producer.errors["commit"] = [kafka_error(fatal=True)]
        bench.unit.buffer.add("source", [record(0)])
        bench.delivery.wake()
        batch = await bench.take()
        bench.unit.dead = True
        batch.owner.finished(batch)
        await bench.until(lambda: bench.unit.inflight is None)
        assert bench.failures == []

    run(test, config(tmp_path))


def test_given_a_unit_lost_while_its_batch_waits_for_the_agent_then_the_agent_does_not_get_it(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.unit.buffer.add("source", [record(0)])
        bench.delivery.wake()
        batch = await asyncio.wait_for(bench.handed.get(), 10)
        bench.units = {}
        bench.unit.close(10)
        assert not batch.owner.started(batch)
        assert batch.state is BatchState.DROPPED
        assert bench.unit.idle.is_set()

    run(test, config(tmp_path))


def test_given_a_unit_closed_at_the_moment_of_delivery_then_others_are_delivered(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        lost = restored_unit(config(tmp_path / "lost"), FakeProducer())
        lost.close(0)
        lost.dead, lost.ready = False, True  # as it was looked at
        bench.units = {1: lost, 0: bench.unit}
        for unit in bench.units.values():
            unit.buffer.add("source", [record(0)])
        bench.delivery.wake()
        assert (await bench.take()).partition == 0
        assert lost.inflight is None

    run(test, config(tmp_path))


def test_given_quiesce_then_unstarted_batches_return_to_the_buffer_and_started_ones_finish(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.unit.buffer.add("source", [record(n) for n in range(4)])
        bench.delivery.wake()
        first = await bench.take()
        bench.flowing = False
        quiet = asyncio.create_task(bench.delivery.quiesce())
        await asyncio.sleep(0.05)
        assert not quiet.done()
        first.owner.finished(first)
        await asyncio.wait_for(quiet, 10)
        bench.flowing = True
        bench.delivery.wake()
        second = await asyncio.wait_for(bench.handed.get(), 10)
        bench.flowing = False
        await bench.delivery.quiesce()
        assert second.state is BatchState.DROPPED
        taken = bench.unit.buffer.take(10)
        assert taken is not None
        assert [m.offset() for m in taken[1]] == [2, 3]

    run(test, config(tmp_path, max_batch=2, max_buffered=10))


def test_given_a_commit_that_waits_for_others_to_decide_then_quiesce_gives_its_unit_away(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.unit.buffer.add("source", [record(0)])
        bench.delivery.wake()
        batch = await bench.take()
        bench.unit.waiting_since = 1.0
        await asyncio.wait_for(bench.delivery.quiesce(), 10)
        assert bench.unit.inflight is batch
        bench.unit.waiting_since = None

    run(test, config(tmp_path, quiesce_timeout=600.0))


def test_pitfall_07_given_a_failed_worker_then_quiesce_does_not_wait_for_the_dead_agents_batch(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.unit.buffer.add("source", [record(0)])
        bench.delivery.wake()
        await bench.take()
        bench.delivery.end()
        await asyncio.wait_for(bench.delivery.quiesce(), 10)

    run(test, config(tmp_path, quiesce_timeout=600.0))


def test_given_a_flood_of_dead_letters_then_nothing_of_the_batch_commits(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.unit.buffer.add("source", [record(n) for n in range(3)])
        bench.delivery.wake()
        batch = await bench.take()
        for message in batch.records:
            with batch.guard(message):
                raise LookupError("poison")
        batch.owner.finished(batch)
        await asyncio.wait_for(bench.failed.wait(), 10)
        assert isinstance(bench.failures[0], FloodError)
        assert bench.producer.committed == []

    run(test, config(tmp_path, dead_letter=Letters(), flood_run=3, permanent_errors=(LookupError,)))


def test_given_linger_then_a_small_batch_waits_for_more_and_a_full_one_does_not(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.unit.buffer.add("source", [record(0)])
        bench.delivery.wake()
        await asyncio.sleep(0.05)
        assert bench.handed.empty()
        bench.unit.buffer.add("source", [record(1)])
        bench.delivery.wake()
        assert len(await bench.take()) == 2

    run(test, config(tmp_path, linger=3600.0, max_batch=2, max_buffered=10))
