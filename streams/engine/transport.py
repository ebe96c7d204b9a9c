"""Faust's transport over one group: a consumer that delivers batches, a producer that refuses.

Everything Faust would do per record (acks, offset tracking, commits, seeks) is switched off here; its
rebalance callbacks, flow control and stop sequence are kept and drive :class:`Delivery`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NoReturn

from faust.transport import base
from faust.transport.consumer import Consumer as FaustConsumer
from faust.transport.drivers import TRANSPORTS
from faust.transport.producer import Producer as FaustProducer
from faust.types import TP, ConsumerMessage
from mode import Service

from .batch import Batch
from .consumer import Poller
from .delivery import Delivery
from .errors import Crash, Refused
from .watchdog import Watchdog

log = logging.getLogger(__name__)

SCHEME = "batches"
#: How long leaving the group may take at the end; the process exits in any case.
LEAVE_TIMEOUT = 15.0


class Producer(FaustProducer):  # type: ignore[misc]
    """Sends nothing: an output outside the batch's transaction would break the guarantee."""

    async def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError("use batch.send(): outputs travel in the batch's transaction only")

    send = send_and_wait = create_topic = _refuse

    def send_soon(self, _: Any) -> NoReturn:
        raise RuntimeError("use batch.send(): outputs travel in the batch's transaction only")

    async def flush(self) -> None:
        pass

    def supports_headers(self) -> bool:
        return True


class Fetcher(Service):  # type: ignore[misc]
    """Runs the delivery loop. Faust's own crashes the worker when it is stopped during a rebalance."""

    def __init__(self, app: Any, **options: Any) -> None:
        self.app = app
        super().__init__(**options)

    @Service.task  # type: ignore[untyped-decorator]
    async def _deliver(self) -> None:
        consumer = self.app.consumer
        await consumer.delivery.run(
            flowing=lambda: bool(consumer.flow_active),
            stopping=lambda: bool(self.should_stop or consumer.should_stop),
        )


class Consumer(FaustConsumer):  # type: ignore[misc]
    """Ties the poll thread and the delivery loop of ``app.group`` to Faust."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        app = self.app
        self._config = app.config
        self._poller: Poller | None = None
        self.delivery = Delivery(
            app.config,
            lambda: app.group.units,
            self._hand,
            app.fail,
            app.pool,
            lambda: self._poller.space_freed() if self._poller is not None else None,
        )
        self._watchdog = Watchdog(
            app.config,
            commits=lambda: dict(self.delivery.commits),
            poll_beat=lambda: self._poller.beat if self._poller is not None and self._poller.running else None,
            units=lambda: list(app.group.units.values()),
            fail=app.fail,
            hard_exit=app.hard_exit,
        )

    async def on_start(self) -> None:
        self._watchdog.start()

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Start the poll thread. Faust calls it once all agents have registered their topics."""
        if self._poller is not None:
            raise Refused("the subscription cannot change while running")
        if set(topics) != set(self.app.group.needed.sources):
            raise Refused(f"agents read {sorted(topics)}, declared are {self.app.group.needed.sources}")
        self._poller = Poller(self._config, self.app.group, _Host(self))
        self._poller.start()

    async def _hand(self, batch: Batch) -> None:
        """Put a batch into the queue of the one agent that reads its topic."""
        last = batch.records[-1]
        message = ConsumerMessage(
            batch.topic, batch.partition, last.offset(), last.timestamp()[1] / 1000, 0, None, None, batch,
            None, 0, 0, TP(batch.topic, batch.partition),
        )  # fmt: skip
        await self.callback(message)
        if message.refcount != 1:
            raise Crash(f"{batch.topic} is read by {message.refcount} agents, exactly one is supported")

    def failing(self) -> None:
        """The worker is ending on an error: wait for running commits only."""
        self.delivery.end()
        self._watchdog.ending()

    async def wait_empty(self) -> None:
        """Called by Faust on revoke and stop."""
        await self.delivery.quiesce()

    async def on_stop(self) -> None:
        """Finish or take back, leave the group, close the units."""
        await self.delivery.quiesce()
        if self._poller is not None:
            loop = asyncio.get_running_loop()
            if not await loop.run_in_executor(None, self._poller.stop, LEAVE_TIMEOUT):
                log.error("the group was not left in %s s", LEAVE_TIMEOUT)
        self._watchdog.stop()

    async def on_task_error(self, exc: BaseException) -> None:
        """An agent raised."""
        self.app.fail(exc)

    def assignment(self) -> set[Any]:
        return {TP(topic, unit.partition) for unit in list(self.app.group.units.values()) for topic in unit.sources}

    def resume_flow(self) -> None:
        super().resume_flow()
        self.delivery.wake()

    # What Faust would do per record or on its own timers. The two tasks must stay tasks: mode checks.

    @Service.task  # type: ignore[untyped-decorator]
    async def _commit_handler(self) -> None:
        pass

    @Service.task  # type: ignore[untyped-decorator]
    async def _commit_livelock_detector(self) -> None:
        pass

    async def commit(self, *_: Any, **__: Any) -> bool:
        return False

    force_commit = commit

    async def commit_and_end_transactions(self) -> None:
        pass

    async def perform_seek(self) -> None:
        pass

    def ack(self, *_: Any) -> bool:
        return True

    def track_message(self, message: Any) -> None:
        pass

    def on_buffer_full(self, tp: Any) -> None:
        pass

    def on_buffer_drop(self, tp: Any) -> None:
        pass

    def pause_partitions(self, tps: Any) -> None:
        pass

    def resume_partitions(self, tps: Any) -> None:
        pass

    def _set_active_tps(self, tps: Any) -> set[Any]:
        return set(tps)

    def _new_topicpartition(self, topic: str, partition: int) -> Any:
        return TP(topic, partition)

    def highwater(self, *_: Any) -> int:
        return 0

    def topic_partitions(self, *_: Any) -> int | None:
        return None

    def key_partition(self, *_: Any, partition: int | None = None) -> int | None:
        return partition

    def verify_event_path(self, now: float, tp: Any) -> None:
        pass

    def close(self) -> None:
        pass

    async def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError("offsets travel in transactions only")

    _commit = seek_to_committed = _seek = seek_wait = position = _refuse
    earliest_offsets = highwaters = _getmany = create_topic = _refuse

    def _to_message(self, *_: Any) -> NoReturn:
        raise RuntimeError("records are not wrapped")


class _Host:
    """What the poll thread may ask of Faust's loop."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._app: Any = consumer.app
        self._loop: asyncio.AbstractEventLoop = consumer.loop

    def assigned(self, partitions: list[tuple[str, int]]) -> None:
        if self._ended():
            return
        if not self._app.rebalancing:
            self._loop.call_soon_threadsafe(self._app.on_rebalance_start)
        self._on_loop(lambda: self._consumer.on_partitions_assigned(_tps(partitions)), 60.0)

    def revoked(self, partitions: list[tuple[str, int]]) -> None:
        if self._ended():
            return
        self._loop.call_soon_threadsafe(self._app.on_rebalance_start)
        quiesce = self._consumer._config.quiesce_timeout
        self._on_loop(lambda: self._consumer.on_partitions_revoked(_tps(partitions)), quiesce + 5)

    def wake(self) -> None:
        self._consumer.delivery.wake()

    def fail(self, error: BaseException) -> None:
        self._app.fail(error)

    def _ended(self) -> bool:
        return bool(self._app.should_stop or self._app.failure is not None)

    def _on_loop(self, work: Callable[[], Coroutine[Any, Any, None]], timeout: float) -> None:
        """Run ``work`` on the loop and wait, but not for a loop that is about to end."""
        if self._ended():
            return
        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        waited = 0.0
        while not self._ended():
            try:
                future.result(0.1)
                return
            except TimeoutError:
                waited += 0.1
                if future.done() or waited > timeout:
                    raise Crash(f"the event loop did not answer a rebalance in {timeout:g} s") from None


def _tps(partitions: list[tuple[str, int]]) -> set[Any]:
    return {TP(topic, partition) for topic, partition in partitions}


class Transport(base.Transport):  # type: ignore[misc]
    """Selected by the broker URL scheme ``batches://``."""

    Consumer = Consumer
    Producer = Producer
    Fetcher = Fetcher
    default_port = 9092
    driver_version = "streams.engine"


TRANSPORTS.aliases[SCHEME] = f"{__name__}:Transport"
