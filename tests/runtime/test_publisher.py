"""The publisher over a producer that does as told: any doubt is BrokerAway, and a dead broker is told quickly."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.runtime.clock import FakeClock
from streams.runtime.errors import Permanent
from streams.runtime.publisher import Acknowledged, BrokerAway, KafkaPublisher, Record

T = TypeVar("T")
RECORD = Record("topic", 3, b"k", b"v", (("h", b"1"),))


class FakeMessage:
    def __init__(self, topic: str, partition: int, offset: int) -> None:
        self._place = (topic, partition, offset)

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._place[2]


class FakeProducer:
    """Answers each record as ``outcome`` says at the time: an error code, None for success, "silence"."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.outcome: int | str | None = None
        self.fatal = False
        self.silent_from: int | None = None
        self.full = False
        self.refuses: int | None = None
        self.produced: list[dict[str, Any]] = []
        self.purged: list[dict[str, bool]] = []
        self._lock = threading.Lock()
        self._reports: list[Callable[[], None]] = []
        self._unanswered = 0

    def produce(self, topic: str, *, on_delivery: Callable[[Any, Any], None], **record: Any) -> None:
        if self.full:
            raise BufferError
        if self.refuses is not None:
            raise KafkaException(KafkaError(self.refuses))
        self.produced.append({"topic": topic, **record})
        message = FakeMessage(topic, record["partition"], len(self.produced))
        with self._lock:
            after = self.silent_from is not None and len(self.produced) > self.silent_from
            if self.outcome == "silence" or after:
                self._unanswered += 1
                return
            error = KafkaError(self.outcome, "told so", self.fatal) if isinstance(self.outcome, int) else None
            self._reports.append(lambda: on_delivery(error, message))

    def poll(self, timeout: float) -> int:
        with self._lock:
            reports, self._reports = self._reports, []
        for report in reports:
            report()
        threading.Event().wait(0.001)
        return len(reports)

    def flush(self, timeout: float) -> int:
        return self._unanswered

    def purge(self, **what: bool) -> None:
        self.purged.append(what)
        self._unanswered = 0

    def list_topics(self, timeout: float) -> None:
        if self.outcome is not None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def __len__(self) -> int:
        return self._unanswered


class Bench:
    def __init__(self, **options: Any) -> None:
        self.clock = FakeClock()
        self.made: list[FakeProducer] = []
        options = {"timeout_s": 2.0, "records_waiting_max": 100} | options
        self.publisher = KafkaPublisher(
            {"bootstrap.servers": "x"},
            clock=self.clock,
            make=self._make,  # type: ignore[arg-type]
            **options,
        )

    def _make(self, config: dict[str, Any]) -> FakeProducer:
        self.made.append(FakeProducer(config))
        return self.made[-1]

    @property
    def producer(self) -> FakeProducer:
        return self.made[-1]

    def run(self, scene: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async def inside() -> T:
            async with self.publisher:
                return await scene()

        return asyncio.run(inside())


def test_acknowledgements_come_back_in_order_and_records_go_out_as_given() -> None:
    bench = Bench()
    records = [Record("topic", n % 12, b"k", str(n).encode()) for n in range(50)]
    done = bench.run(lambda: bench.publisher.publish(records))
    assert done == [Acknowledged("topic", n % 12, n + 1) for n in range(50)]
    assert [one["value"] for one in bench.producer.produced] == [record.value for record in records]


def test_the_producer_is_idempotent_waits_for_all_replicas_and_gives_up_before_the_caller() -> None:
    bench = Bench(timeout_s=5.0)
    bench.run(lambda: bench.publisher.publish([RECORD]))
    config = bench.producer.config
    assert (config["acks"], config["enable.idempotence"]) == ("all", True)
    assert config["delivery.timeout.ms"] < 5_000
    assert config["batch.size"] < config["message.max.bytes"] <= 256 * 1024
    assert config["allow.auto.create.topics"] is False


def test_produced_is_called_between_handing_over_and_acknowledgement() -> None:
    bench = Bench()
    seen: list[int] = []
    bench.run(lambda: bench.publisher.publish([RECORD], produced=lambda: seen.append(len(bench.producer.produced))))
    assert seen == [1]


def test_nothing_to_publish_needs_no_broker() -> None:
    bench = Bench()
    assert asyncio.run(bench.publisher.publish([])) == []


@pytest.mark.parametrize(
    "code", [KafkaError._MSG_TIMED_OUT, KafkaError._TRANSPORT, KafkaError.NOT_ENOUGH_REPLICAS, KafkaError._PURGE_QUEUE]
)
def test_any_doubt_about_any_record_is_broker_away(code: int) -> None:
    bench = Bench()

    async def scene() -> None:
        bench.producer.outcome = code
        await bench.publisher.publish([RECORD, RECORD])

    with pytest.raises(BrokerAway):
        bench.run(scene)


def test_silence_is_broker_away_after_the_timeout_and_the_queue_is_emptied() -> None:
    bench = Bench(timeout_s=0.05)

    async def scene() -> None:
        bench.producer.outcome = "silence"
        with pytest.raises(BrokerAway):
            await bench.publisher.publish([RECORD])
        assert bench.producer.purged == [{"in_queue": True, "in_flight": False, "blocking": False}]

    bench.run(scene)


def test_the_acknowledgement_of_some_is_not_that_of_all() -> None:
    bench = Bench(timeout_s=0.05)

    async def scene() -> None:
        bench.producer.silent_from = 1
        with pytest.raises(BrokerAway):
            await bench.publisher.publish([RECORD, RECORD])

    bench.run(scene)


def test_while_the_broker_is_known_to_be_away_nothing_is_tried_and_one_trial_opens_the_way() -> None:
    bench = Bench()

    async def scene() -> None:
        bench.producer.outcome = KafkaError._MSG_TIMED_OUT
        with pytest.raises(BrokerAway):
            await bench.publisher.publish([RECORD])
        handed_over = len(bench.producer.produced)
        with pytest.raises(BrokerAway) as refused:
            await bench.publisher.publish([RECORD])
        assert refused.value.retry_after_s >= 1
        assert len(bench.producer.produced) == handed_over
        bench.producer.outcome = None
        bench.clock.advance(1_000)
        assert len(await bench.publisher.publish([RECORD])) == 1
        assert len(await bench.publisher.publish([RECORD])) == 1

    bench.run(scene)


def test_a_caller_that_goes_away_during_the_trial_leaves_the_way_free() -> None:
    bench = Bench()

    async def scene() -> None:
        bench.producer.outcome = KafkaError._MSG_TIMED_OUT
        with pytest.raises(BrokerAway):
            await bench.publisher.publish([RECORD])
        bench.clock.advance(1_000)
        bench.producer.outcome = "silence"
        trial = asyncio.create_task(bench.publisher.publish([RECORD]))
        await asyncio.sleep(0)
        trial.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trial
        bench.producer.outcome = None
        assert len(await bench.publisher.publish([RECORD])) == 1

    bench.run(scene)


def test_more_records_than_may_wait_are_refused_before_they_are_handed_over() -> None:
    bench = Bench(records_waiting_max=2)

    async def scene() -> None:
        with pytest.raises(BrokerAway):
            await bench.publisher.publish([RECORD] * 3)
        assert bench.producer.produced == []
        bench.producer.full = True
        with pytest.raises(BrokerAway):
            await bench.publisher.publish([RECORD])
        bench.producer.full = False
        assert len(await bench.publisher.publish([RECORD])) == 1

    bench.run(scene)


def test_a_record_kafka_refuses_for_good_is_permanent_and_the_others_go_on() -> None:
    bench = Bench()

    async def scene() -> None:
        bench.producer.refuses = KafkaError.MSG_SIZE_TOO_LARGE
        with pytest.raises(Permanent):
            await bench.publisher.publish([RECORD])
        bench.producer.refuses = None
        assert len(await bench.publisher.publish([RECORD])) == 1

    bench.run(scene)


def test_a_fatal_error_replaces_the_producer() -> None:
    bench = Bench()

    async def scene() -> None:
        bench.producer.outcome, bench.producer.fatal = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, True
        with pytest.raises(BrokerAway):
            await bench.publisher.publish([RECORD])
        assert len(bench.made) == 2
        bench.clock.advance(1_000)
        assert len(await bench.publisher.publish([RECORD])) == 1

    bench.run(scene)


def test_a_closed_publisher_takes_nothing() -> None:
    bench = Bench()
    bench.run(lambda: bench.publisher.publish([RECORD]))
    with pytest.raises(BrokerAway):
        asyncio.run(bench.publisher.publish([RECORD]))


def test_the_probe_tells_whether_a_broker_answers() -> None:
    bench = Bench()

    async def scene() -> None:
        await bench.publisher.probe()
        bench.producer.outcome = "silence"
        with pytest.raises(BrokerAway):
            await bench.publisher.probe()

    bench.run(scene)


def test_that_no_broker_can_be_reached_is_known_before_anything_is_late() -> None:
    made: list[FakeProducer] = []

    def make(config: dict[str, Any]) -> Any:
        made.append(FakeProducer(config))
        return made[-1]

    async def scene() -> None:
        clock = FakeClock()
        async with KafkaPublisher({}, timeout_s=60, make=make, clock=clock) as publisher:
            heard = made[0].config["error_cb"]
            heard(KafkaError(KafkaError._TRANSPORT))
            await asyncio.sleep(0)
            assert len(await publisher.publish([RECORD])) == 1
            heard(KafkaError(KafkaError._ALL_BROKERS_DOWN))
            await asyncio.sleep(0)
            with pytest.raises(BrokerAway):
                await publisher.publish([RECORD])
            clock.advance(1_000)
            assert len(await publisher.publish([RECORD])) == 1
            assert len(await publisher.publish([RECORD])) == 1

    asyncio.run(scene())
