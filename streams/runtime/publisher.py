"""Records to Kafka from an event loop: acknowledged by all in-sync replicas, or not accepted at all.

    publish ──produce()──► librdkafka's queue ──► broker
       ▲                                            │
       └── future ◄─call_soon_threadsafe── poll thread ◄─ delivery report

Any doubt is Unavailable. A record whose caller was told so may still be delivered later (the broker may have
it already, and only its acknowledgement was lost): callers send it again under the same event id, which makes
that harmless. While the broker is away, which librdkafka tells before anything is late, one call at a time tries
it; the others are refused at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from schemas.topics import SOURCE_RECORD_BYTES_MAX
from streams.runtime import logs, metrics
from streams.runtime.circuit import Circuit
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.errors import Permanent, Unavailable
from streams.runtime.failures import kafka_failed
from streams.runtime.quiet import quieted

REST_S = 1.0
RECORDS_WAITING_MAX = 20_000
KIB_WAITING_MAX = 64 * 1024
# Kafka's limit of a topic holds for a whole batch of records, so a batch must stay below it as well.
BATCH_BYTES_MAX = SOURCE_RECORD_BYTES_MAX // 2
# The share of the caller's patience that librdkafka gets; the rest is for the report to travel back.
DELIVERY_SHARE = 0.8
_POLL_S = 0.1
_CLOSE_S = 5.0
_REFUSED_FOR_GOOD = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_MSG})

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Record:
    """One record to publish. The partition is always chosen by us (schemas.placement), never by a client. An empty
    ``value`` is a tombstone: no event is empty."""

    topic: str
    partition: int
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Acknowledged:
    topic: str
    partition: int
    offset: int


class BrokerAway(Unavailable):
    """Not acknowledged in time, or not tried because the broker is known to be away."""

    dependency = "kafka"


def _nothing() -> None:
    """Default of ``produced``."""


class Publisher(Protocol):
    async def publish(
        self, records: Sequence[Record], *, produced: Callable[[], None] = _nothing
    ) -> list[Acknowledged]:
        """Return when every record is acknowledged, in the order given.

        ``produced`` is called once all are handed over, none acknowledged for sure. Raises BrokerAway when
        any is in doubt, Permanent when Kafka refuses one for good (size).
        """
        ...


class KafkaPublisher:
    """The Publisher over an idempotent librdkafka producer; use as an async context manager.

    ``client``: librdkafka settings of the cluster. ``timeout_s``: how long a call waits for its
    acknowledgements, seconds. Order is kept per partition; nothing is written twice by retries inside.
    """

    def __init__(
        self,
        client: Mapping[str, Any],
        *,
        timeout_s: float,
        clock: Clock | None = None,
        records_waiting_max: int = RECORDS_WAITING_MAX,
        make: Callable[[dict[str, Any]], Producer] | None = None,
    ) -> None:
        self._config = _config(client, timeout_s, records_waiting_max)
        self._timeout_s = timeout_s
        self._records_waiting_max = records_waiting_max
        self._circuit = Circuit("kafka", clock or SystemClock(), rest_s=REST_S)
        self._make = make or (lambda config: Producer(config, logger=quieted("librdkafka.publisher")))
        self._line: _Line | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()

        def heard(error: KafkaError) -> None:
            # From the poll thread. Known before any delivery times out: who comes now need not wait for that.
            if error.code() == KafkaError._ALL_BROKERS_DOWN:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._circuit.failed)

        self._config["error_cb"] = heard
        self._line = _Line(self._make(self._config))
        return self

    async def __aexit__(self, *exc: object) -> None:
        line, self._line = self._line, None
        if line is not None:
            await asyncio.to_thread(line.close, _CLOSE_S)

    async def publish(
        self, records: Sequence[Record], *, produced: Callable[[], None] = _nothing
    ) -> list[Acknowledged]:
        if not records:
            return []
        line = self._line
        if line is None:
            raise BrokerAway("the publisher is closed")
        if line.waiting() + len(records) > self._records_waiting_max:
            raise BrokerAway("too many records wait for Kafka", retry_after_s=1)
        if not self._circuit.enter():
            raise BrokerAway("Kafka does not answer", retry_after_s=self._circuit.retry_after_s)
        started = time.monotonic()
        call = _Call(len(records))
        try:
            for index, record in enumerate(records):
                line.produce(record, partial(call.delivered, index))
            produced()
            done = await asyncio.wait_for(call.future, self._timeout_s)
        except KafkaException as exc:
            raise self._refused(line, exc.args[0]) from exc
        except BufferError:
            self._circuit.abandoned()
            raise BrokerAway("too many records wait for Kafka", retry_after_s=1) from None
        except TimeoutError:
            # librdkafka gives up before we do; if it has not, what still lies in its queue must not pile up.
            line.purge()
            self._circuit.failed()
            kafka_failed("_TIMED_OUT")
            raise BrokerAway("Kafka did not acknowledge in time") from None
        except BaseException:
            self._circuit.abandoned()
            raise
        self._circuit.succeeded()
        metrics.PUBLISH_SECONDS.observe(time.monotonic() - started)
        return done

    async def probe(self, timeout_s: float = 2.0) -> None:
        """Return when a broker answers; raise BrokerAway otherwise. For readiness."""
        line = self._line
        if line is None:
            raise BrokerAway("the publisher is closed")
        await asyncio.to_thread(line.probe, timeout_s)

    def _refused(self, line: _Line, error: KafkaError) -> Exception:
        if error.code() in _REFUSED_FOR_GOOD:
            self._circuit.succeeded()
            return Permanent(f"Kafka refuses the record: {error.name()}", cause="too_large")
        self._circuit.failed()
        kafka_failed(error.name())
        if error.fatal() and self._line is line:
            # An idempotent producer in fatal state stays there: its successor can go on.
            _log.error("producer replaced after a fatal error", error=error.name())
            self._line = _Line(self._make(self._config))
            threading.Thread(target=line.close, args=(0.0,), name="publisher-old", daemon=True).start()
        return BrokerAway(f"Kafka did not acknowledge: {error.name()}")


class _Call:
    """One call's acknowledgements. ``delivered`` runs in the poll thread, the future lives in the loop."""

    def __init__(self, count: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = count
        self._acknowledged: list[Acknowledged | None] = [None] * count
        self.future: asyncio.Future[list[Acknowledged]] = self._loop.create_future()

    def delivered(self, index: int, error: KafkaError | None, message: Message) -> None:
        self._left -= 1
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if error is None and (topic is None or partition is None or offset is None):
            # "Delivered" without an offset is Kafka's "duplicate": nobody knows where that record is.
            error = KafkaError(KafkaError._FAIL, "acknowledged without an offset")
        if error is None:
            self._acknowledged[index] = Acknowledged(topic or "", partition or 0, offset or 0)
            if self._left:
                return
        try:
            self._loop.call_soon_threadsafe(self._finish, error)
        except RuntimeError:
            # The loop is closed: nobody waits for this answer any more.
            return

    def _finish(self, error: KafkaError | None) -> None:
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(KafkaException(error))
        else:
            self.future.set_result([one for one in self._acknowledged if one is not None])


class _Line:
    """A producer and the thread that serves its delivery reports."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="publisher-poll", daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._stop.is_set():
            self._producer.poll(_POLL_S)

    def waiting(self) -> int:
        return len(self._producer)

    def produce(self, record: Record, on_delivery: Callable[[KafkaError | None, Message], None]) -> None:
        """Raises BufferError when librdkafka's queue is full, KafkaException when it refuses at once."""
        self._producer.produce(
            record.topic,
            value=record.value or None,
            key=record.key,
            partition=record.partition,
            on_delivery=on_delivery,
            headers=list(record.headers),
        )

    def purge(self) -> None:
        self._producer.purge(in_queue=True, in_flight=False, blocking=False)

    def probe(self, timeout_s: float) -> None:
        try:
            self._producer.list_topics(timeout=timeout_s)
        except KafkaException as exc:
            raise BrokerAway(f"Kafka does not answer: {exc.args[0].name()}") from exc

    def close(self, timeout_s: float) -> None:
        """Wait up to ``timeout_s`` for what is under way, then drop the rest. Blocks."""
        if self._producer.flush(timeout_s):
            self._producer.purge()
            self._producer.flush(1.0)
        self._stop.set()
        self._thread.join(_CLOSE_S)


def _config(client: Mapping[str, Any], timeout_s: float, records_waiting_max: int) -> dict[str, Any]:
    delivery_ms = max(100, int(timeout_s * 1000 * DELIVERY_SHARE))
    return {
        **client,
        "acks": "all",
        "enable.idempotence": True,
        # With more, a new partition can lose records it acknowledged: its first batch fails (no leader yet), the
        # second is taken as the producer's beginning, and the first, sent again, then counts as a duplicate.
        "max.in.flight.requests.per.connection": 1,
        "linger.ms": 2,
        "compression.type": "lz4",
        "delivery.timeout.ms": delivery_ms,
        "request.timeout.ms": delivery_ms,
        "retry.backoff.ms": 50,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "socket.connection.setup.timeout.ms": 3_000,
        "batch.size": BATCH_BYTES_MAX,
        "message.max.bytes": SOURCE_RECORD_BYTES_MAX,
        "queue.buffering.max.messages": records_waiting_max,
        "queue.buffering.max.kbytes": KIB_WAITING_MAX,
        "allow.auto.create.topics": False,
    }
