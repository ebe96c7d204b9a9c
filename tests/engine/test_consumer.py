"""The poll thread's decisions: order of assignment, positions, pauses."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from streams.engine import Crash, Hung, NoMetrics, Refused
from streams.engine import consumer as consumer_module
from streams.engine.backpressure import should_pause
from streams.engine.buffer import RECORD_BYTES, Buffer
from streams.engine.consumer import Poller
from streams.engine.errors import Closed, Disagreement
from streams.engine.group import Group
from streams.engine.hanging import OFFSETS_TOPIC, offsets_partition
from streams.engine.logs import Logs, TopicFacts
from streams.engine.restore import Restorer
from streams.engine.resume import LogRange
from streams.engine.unit import Unit
from streams.local.processes import wait_until

from .fakes import TABLE, FakeProducer, config, kafka_error, record


class FakeConsumer:
    """Writes down what it is asked for, and on which thread."""

    def __init__(self, log: list[str], committed: dict[int, int]) -> None:
        self.log = log
        self.offsets = committed
        self.threads: set[threading.Thread] = set()
        self.committed_errors: list[Exception] = []
        #: What the next turn brings.
        self.brought: list[Message] = []

    def _note(self, what: str) -> None:
        self.threads.add(threading.current_thread())
        self.log.append(what)

    def consumer_group_metadata(self) -> str:
        self._note("metadata")
        return "metadata"

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self._note("committed")
        if self.committed_errors:
            raise self.committed_errors.pop(0)
        return [TopicPartition(tp.topic, tp.partition, self.offsets.get(tp.partition, -1001)) for tp in partitions]

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._note(f"assign {[(tp.partition, tp.offset) for tp in partitions]}")

    def pause(self, partitions: list[TopicPartition]) -> None:
        self._note(f"pause {[tp.partition for tp in partitions]}")

    def resume(self, partitions: list[TopicPartition]) -> None:
        self._note(f"resume {[tp.partition for tp in partitions]}")

    def poll(self, timeout: float) -> Message | None:
        return self.brought.pop(0) if self.brought else None

    def consume(self, most: int, timeout: float) -> list[Message]:
        found, self.brought = self.brought, []
        return found

    def get_watermark_offsets(self, tp: TopicPartition, timeout: float = 0, cached: bool = False) -> tuple[int, int]:
        return 3, 12


class FakeLogs:
    """Knows one source and its changelog."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.failure: Crash | None = None
        self.forbidden = ""
        self.looked: set[tuple[str, int]] = set()
        self.hanging: set[tuple[str, int]] = set()

    def describe(self, topics: Any) -> dict[str, TopicFacts]:
        if self.failure is not None:
            raise self.failure
        topics = list(topics)
        if self.forbidden in topics:
            raise Refused("describe topics: denied")
        return {name: TopicFacts(f"id-{name}", self.partitions) for name in topics}

    def settings(self, topics: Any) -> dict[str, dict[str, str]]:
        return {}

    def ranges(self, partitions: Any, facts: Any) -> dict[tuple[str, int], LogRange]:
        self.looked = set(partitions)
        return {place: LogRange(facts[place[0]].topic_id, 0, 9, 9 - (place in self.hanging)) for place in partitions}


class FakeHost:
    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.failures: list[BaseException] = []

    def assigned(self, partitions: list[tuple[str, int]]) -> None:
        self.log.append("host assigned")

    def revoked(self, partitions: list[tuple[str, int]]) -> None:
        self.log.append("host revoked")

    def wake(self) -> None:
        pass

    def fail(self, error: BaseException) -> None:
        self.failures.append(error)


class Bench:
    def __init__(
        self,
        folder: Path,
        committed: dict[int, int] | None = None,
        partitions: int = 2,
        sources: tuple[str, ...] = ("source",),
        **changes: Any,
    ) -> None:
        self.log: list[str] = []
        settings = config(folder, **changes)
        self.pool = ThreadPoolExecutor(2)
        self.logs = FakeLogs(partitions)
        self.group = Group(
            settings, sources, [TABLE], [], self.pool,
            lambda *_: FakeProducer(self.log), lambda _: cast(Logs, self.logs),
        )  # fmt: skip
        self.group.check()
        # Restoring is another thread's work and tested elsewhere.
        self.group.restore = lambda *_: None  # type: ignore[method-assign]
        self.host = FakeHost(self.log)
        self.poller = Poller(settings, self.group, self.host)
        self.fake = FakeConsumer(self.log, committed or {})
        self.consumer = cast(Consumer, self.fake)

    def assign(self, *partitions: int) -> None:
        places = [TopicPartition(topic, p) for topic in self.group.needed.sources for p in partitions]
        self.poller._on_assign(self.consumer, places)

    def close(self) -> None:
        self.group.release(wait=True)
        self.pool.shutdown()


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    made = Bench(tmp_path, {0: 5})
    yield made
    made.close()


def test_invariant_03_given_an_assignment_then_ids_are_taken_before_offsets_are_read(bench: Bench) -> None:
    bench.assign(0, 1)
    assert bench.log == [
        "metadata", "init_transactions", "init_transactions", "committed",
        "assign []", "host assigned",
    ]  # fmt: skip


def test_given_offsets_that_are_not_told_then_what_may_hide_them_is_looked_at_and_they_are_asked_for_again(
    bench: Bench,
) -> None:
    bench.group.wait_offsets_decided = lambda: bench.log.append("looked")  # type: ignore[method-assign]
    bench.fake.committed_errors = [kafka_error(KafkaError._TIMED_OUT), kafka_error(KafkaError.UNSTABLE_OFFSET_COMMIT)]
    bench.assign(0)
    assert [entry for entry in bench.log if entry in ("committed", "looked")] == ["committed", "looked"] * 2 + [
        "committed"
    ]
    assert bench.group.units[0].committed == {"source": 5}


def test_given_offsets_hidden_by_a_hanging_transaction_then_the_assignment_is_refused(bench: Bench) -> None:
    def hanging() -> None:
        raise Refused("hanging transaction")

    bench.group.wait_offsets_decided = hanging  # type: ignore[method-assign]
    bench.fake.committed_errors = [kafka_error(KafkaError._TIMED_OUT)]
    with pytest.raises(Refused, match="hanging"):
        bench.assign(0)


def test_given_offsets_that_are_not_told_for_another_reason_then_the_worker_ends(bench: Bench) -> None:
    bench.fake.committed_errors = [kafka_error(), kafka_error(KafkaError.GROUP_AUTHORIZATION_FAILED)]
    with pytest.raises(Crash, match="committed offsets"):
        bench.assign(0)
    with pytest.raises(Refused, match=r"committed offsets.*READ on the group"):
        bench.assign(0)


@pytest.mark.parametrize(
    ("code", "needed"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "user of group g needs READ on the group"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "needs READ on sources"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "needs DESCRIBE on the cluster"),
    ],
)
def test_given_a_right_that_is_missing_then_refused_with_its_name(bench: Bench, code: int, needed: str) -> None:
    with pytest.raises(Refused, match=needed):
        bench.poller._judge(KafkaError(code, "denied", False, False, False), "t[0]")


def test_invariant_06_given_a_disagreement_then_a_worker_that_just_joined_refuses_and_a_later_one_asks_again(
    bench: Bench,
) -> None:
    disagreement = Disagreement("source[0]: the group's offset is 3, the changelog says 5")

    def restore(*_: object) -> None:
        raise disagreement

    bench.group.restore = restore  # type: ignore[method-assign, assignment]
    for failures in (1, 2):
        bench.assign(0)
        assert wait_until(partial(_has_failed, bench, failures), 10)
        bench.poller._on_revoke(bench.consumer, [])
    assert bench.host.failures[0] is disagreement
    assert isinstance(bench.host.failures[1], Crash)
    assert "the next start asks again" in str(bench.host.failures[1])


def _has_failed(bench: Bench, times: int) -> bool:
    return len(bench.host.failures) == times


def test_pitfall_01_given_an_assignment_then_group_metadata_is_taken_on_the_polling_thread(bench: Bench) -> None:
    bench.assign(0)
    assert bench.fake.threads == {threading.current_thread()}


#: So many records of one unit among several, and it is paused.
MANY = 200


@pytest.fixture
def small(tmp_path: Path) -> Any:
    """Three units, a buffer soon full, and a consumer that brings nothing by itself."""
    made = Bench(tmp_path, partitions=3, max_batch=10, max_buffered=2 * MANY)
    made.assign(0, 1, 2)
    yield made
    made.close()


def told(bench: Bench, *brought: Message) -> list[str]:
    """One turn, in which these records come: what the consumer is told."""
    before = len(bench.log)
    bench.fake.brought = list(brought)
    bench.poller.poll_once(bench.consumer)
    return bench.log[before:]


def many(start: int = 0) -> list[Message]:
    return [record(start + n) for n in range(MANY)]


def test_pitfall_02_given_a_paused_unit_that_is_given_away_then_its_pause_does_not_outlive_it(small: Bench) -> None:
    start(small, 0, 0)
    start(small, 1, 0)
    told(small, *many())
    assert told(small) == ["pause [0]"]
    small.poller._on_revoke(small.consumer, [])
    assert "resume [0]" in small.log


def test_given_a_paused_unit_when_another_is_restored_then_it_goes_on_before_the_assignment_and_not_after(
    small: Bench,
) -> None:
    start(small, 0, 0)
    start(small, 1, 0)
    told(small, *many())
    assert told(small) == ["pause [0]"]
    small.group.units[0].buffer.take(MANY)
    small.group.units[2].start_at, small.group.units[2].restored = {"source": 0}, True
    assert told(small) == ["resume [0]", f"assign [(0, {MANY}), (1, 0), (2, 0)]"]
    assert told(small) == []


def test_given_a_unit_that_holds_much_when_another_is_restored_then_it_is_paused_once_it_is_read_again(
    small: Bench,
) -> None:
    start(small, 0, 0)
    assert told(small, *many()) == []
    small.group.units[1].start_at, small.group.units[1].restored = {"source": 0}, True
    assert told(small) == [f"assign [(0, {MANY}), (1, 0)]"]
    assert told(small, record(MANY)) == []
    assert told(small) == ["pause [0]"]


def test_given_a_unit_of_two_topics_that_holds_much_then_each_is_paused_once_it_is_read(tmp_path: Path) -> None:
    bench = Bench(tmp_path, partitions=2, sources=("other", "source"), max_batch=10, max_buffered=2 * MANY)
    bench.assign(0, 1)
    for number in (0, 1):
        bench.group.units[number].start_at = {"other": 0, "source": 0}
        bench.group.units[number].restored = True
    told(bench, *many())
    assert told(bench) == ["pause [0]"]
    assert told(bench, record(0, topic="other")) == []
    assert told(bench) == ["pause [0]"]
    while bench.group.units[0].buffer.take(MANY):
        pass
    assert told(bench) == ["resume [0, 0]"]
    bench.close()


def start(bench: Bench, partition: int, offset: int) -> bool:
    """A unit is restored and starts; whether others still wait."""
    unit = bench.group.units[partition]
    unit.start_at, unit.restored = {"source": offset}, True
    return bench.poller._start_restored(bench.consumer)


def test_given_units_restored_one_by_one_then_each_is_read_from_where_it_stands_and_others_from_what_they_have(
    bench: Bench,
) -> None:
    bench.assign(0, 1)
    assert bench.poller._start_restored(bench.consumer)
    assert not bench.group.units[0].ready
    assert start(bench, 1, 9)
    assert bench.log[-1] == "assign [(1, 9)]"
    unit = bench.group.units[1]
    assert unit.ready
    unit.buffer.add("source", [record(9), record(10)])
    assert not start(bench, 0, 4)
    assert bench.log[-1] == "assign [(0, 4), (1, 11)]"
    with pytest.raises(Crash, match="went back"):
        unit.buffer.add("source", [record(8)])


def test_given_a_unit_restored_while_another_starts_then_it_starts_at_the_next_turn(bench: Bench) -> None:
    bench.assign(0, 1)
    first, second = bench.group.units[0], bench.group.units[1]
    expect = first.buffer.expect

    def meanwhile(topic: str, offset: int) -> None:
        expect(topic, offset)
        second.start_at, second.restored = {"source": 9}, True

    first.buffer.expect = meanwhile  # type: ignore[method-assign]
    assert start(bench, 0, 5)
    assert bench.log[-1] == "assign [(0, 5)]"
    assert not bench.poller._start_restored(bench.consumer)
    assert bench.log[-1] == "assign [(0, 5), (1, 9)]"


def test_given_a_unit_that_does_not_end_then_nobody_waits_for_it_for_ever(tmp_path: Path) -> None:
    pool = ThreadPoolExecutor(1)
    settings = config(tmp_path, operation_timeout=0.05)
    group = Group(settings, ["a"], [], [], pool, lambda *_: FakeProducer(), lambda _: cast(Logs, FakeLogs(2)))
    group._closing[0] = Future()
    with pytest.raises(Hung, match="unit 0, given away before"):
        group.fence(dict.fromkeys([0], cast(Unit, None)))
    pool.shutdown()


def test_invariant_09_given_topics_not_assigned_together_then_refused(tmp_path: Path) -> None:
    pool = ThreadPoolExecutor(1)
    group = Group(
        config(tmp_path), ["a", "b"], [], [], pool, lambda *_: FakeProducer(), lambda _: cast(Logs, FakeLogs(2))
    )
    group.check()
    with pytest.raises(Refused, match="assigned together"):
        group.create_units({0: ["a"]}, "metadata")
    with pytest.raises(Refused, match="partition 2 appeared"):
        group.create_units({2: ["a", "b"]}, "metadata")
    pool.shutdown()


@pytest.mark.parametrize(
    ("counts", "refused"),
    [([2, 2, 2], False), ([2, 0, 2, 2], False), ([2, 0, 0], True), ([Crash("away"), 0, Crash("away"), 0], True)],
)
def test_given_topics_that_change_under_a_running_worker_then_refused_when_seen_twice(
    bench: Bench, counts: list[int | Crash], refused: bool
) -> None:
    looks = iter(counts)

    def over(_: float) -> bool:
        found = next(looks, None)
        if found is None:
            return True
        logs.failure = found if isinstance(found, Crash) else None
        logs.partitions = found if isinstance(found, int) else 2
        return False

    logs = bench.logs
    with pytest.raises(Refused, match="topics changed while running") if refused else nullcontext():
        bench.group.watch(over)


def test_given_lost_partitions_then_units_are_dead_before_anything_else(bench: Bench) -> None:
    bench.assign(0)
    unit = bench.group.units[0]
    unit.idle.clear()  # an agent is at work: closing has to wait, losing must not
    bench.poller._on_lost(bench.consumer, [TopicPartition("source", 0)])
    assert unit.dead
    assert bench.group.units == {}
    unit.idle.set()


def test_given_a_vanished_offset_then_refused_and_never_reset(bench: Bench) -> None:
    for code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError.UNKNOWN_TOPIC_OR_PART):
        with pytest.raises(Refused) as refused:
            bench.poller._judge(KafkaError(code, "x", False, False, False), "t[0]")
        assert ("trust_group_offsets" in str(refused.value)) == (code != KafkaError.UNKNOWN_TOPIC_OR_PART)
    with pytest.raises(Crash):
        bench.poller._judge(KafkaError(KafkaError._FATAL, "x", True, False, False), "t[0]")
    bench.poller._judge(KafkaError(KafkaError._TRANSPORT, "x", False, True, False), "t[0]")


def test_given_assigned_partitions_then_their_lag_is_end_minus_what_is_durable(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []

    class Metrics(NoMetrics):
        def lag(self, topic: str, partition: int, records: int) -> None:
            seen.append((topic, partition, records))

    bench = Bench(tmp_path, metrics=Metrics())
    bench.assign(0)
    bench.poller._report(bench.consumer)
    bench.group.units[0].applied = {"source": 5}
    bench.poller._lag_at = 0.0
    bench.poller._report(bench.consumer)
    assert seen == [("source", 0, 7)]
    bench.close()


def test_invariant_05_given_offsets_that_go_back_then_the_worker_ends() -> None:
    buffer = Buffer(["source"])
    buffer.expect("source", 5)
    with pytest.raises(Crash, match="went back"):
        buffer.add("source", [record(4)])
    buffer.add("source", [record(5), record(9)])
    with pytest.raises(Crash, match="went back"):
        buffer.add("source", [record(9)])


def test_given_two_topics_then_they_are_taken_in_turn_and_put_back_in_front() -> None:
    buffer = Buffer(["a", "b"])
    buffer.add("a", [record(n) for n in range(4)])
    buffer.add("b", [record(0)])
    order = [taken[0] for taken in (buffer.take(2), buffer.take(2), buffer.take(2)) if taken is not None]
    assert sorted(order) == ["a", "a", "b"]
    assert order[0] != order[1]
    assert buffer.take(2) is None
    buffer.add("a", [record(5)])
    buffer.put_back("a", [record(4)])
    taken = buffer.take(10)
    assert taken is not None
    assert [m.offset() for m in taken[1]] == [4, 5]


def test_given_large_records_then_they_count_as_several_and_fewer_are_taken_at_once() -> None:
    buffer = Buffer(["small", "large"])
    buffer.add("small", [record(n, value=b"v" * 100) for n in range(50)])
    assert buffer.weight == 50
    taken = buffer.take(40)
    assert taken is not None
    assert len(taken[1]) == 40
    assert buffer.weight == buffer.size == 10

    buffer.add("large", [record(n, value=b"v" * 10 * RECORD_BYTES) for n in range(100)])
    assert buffer.size == 110
    assert 1_000 <= buffer.weight <= 1_001
    taken = buffer.take(40)
    assert taken is not None
    assert [m.offset() for m in taken[1]] == [0, 1, 2, 3]
    buffer.put_back(*taken)
    assert 1_000 <= buffer.weight <= 1_001
    while taken := buffer.take(5):
        assert taken[0] == "small" or len(taken[1]) == 1
    assert buffer.size == buffer.weight == 0


def test_given_large_records_then_their_unit_is_paused_by_what_they_take_of_memory(small: Bench) -> None:
    start(small, 0, 0)
    start(small, 1, 0)
    few = [record(n, value=b"v" * 10 * RECORD_BYTES) for n in range(MANY // 10)]
    told(small, *few)
    assert told(small) == ["pause [0]"]


def test_pitfall_15_given_less_than_half_of_the_buffer_then_nobody_is_paused() -> None:
    limit = 1000
    assert not should_pause(499, paused=False, units=4, limit=limit)
    assert should_pause(500, paused=False, units=4, limit=limit)
    assert should_pause(126, paused=True, units=4, limit=limit)
    assert not should_pause(125, paused=True, units=4, limit=limit)
    assert not should_pause(999, paused=False, units=1, limit=limit)


class Flooded(FakeConsumer):
    """Endless records of some partitions, and a few at a time of one; fetches what is not paused, in turn."""

    def __init__(self, log: list[str], flooded: set[int], trickle: int) -> None:
        super().__init__(log, {})
        self.open: set[int] = set()
        self.flooded = flooded
        self.next = dict.fromkeys(range(4), 0)
        self.waiting = {trickle: 0}

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.open = {tp.partition for tp in partitions}

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.open -= {tp.partition for tp in partitions}

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.open |= {tp.partition for tp in partitions}

    def poll(self, timeout: float) -> Any:
        found = self.consume(1, timeout)
        return found[0] if found else None

    def consume(self, most: int, timeout: float) -> list[Any]:
        found: list[Any] = []
        while len(found) < min(most, 50):
            partition = next((p for p in sorted(self.open, key=self.next.__getitem__) if self._has(p)), None)
            if partition is None:
                break
            found.append(record(self.next[partition], partition=partition))
            self.next[partition] += 1
            if partition in self.waiting:
                self.waiting[partition] -= 1
        return found

    def _has(self, partition: int) -> bool:
        return partition in self.flooded or self.waiting.get(partition, 0) > 0


@pytest.mark.parametrize("flooded", [{0}, {0, 1}, {0, 1, 2}])
def test_given_flooded_partitions_that_do_not_move_then_another_one_gets_its_records(
    tmp_path: Path, flooded: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_module, "STUCK_AFTER", 0.0)
    bench = Bench(tmp_path, partitions=4, max_batch=10, max_buffered=400)
    bench.fake = fake = Flooded(bench.log, flooded, trickle=3)
    bench.consumer = cast(Consumer, fake)
    bench.assign(*range(4))
    for unit in bench.group.units.values():
        unit.start_at, unit.restored = {"source": 0}, True
    quiet = bench.group.units[3]
    for _ in range(20):
        fake.waiting[3] = 30
        for _ in range(40):
            bench.poller.poll_once(bench.consumer)
        assert quiet.buffer.size == 30, "its records are there though nobody else moves"
        while quiet.buffer.take(10):
            bench.poller.space_freed()
        assert bench.group.buffered() <= 1.5 * 400 + 50
    bench.close()


def test_given_a_stuck_buffer_then_units_below_their_share_go_on_and_together_they_are_bounded() -> None:
    assert not should_pause(124, paused=False, units=4, limit=1000, stuck=True)
    assert should_pause(125, paused=False, units=4, limit=1000, stuck=True)
    assert should_pause(63, paused=True, units=4, limit=1000, stuck=True)
    assert not should_pause(62, paused=True, units=4, limit=1000, stuck=True)
    assert should_pause(1, paused=False, units=40, limit=10, stuck=True)


def test_given_a_slow_transaction_then_what_the_unit_wrote_is_looked_at_and_refused_when_it_hangs(
    tmp_path: Path,
) -> None:
    settings, logs = config(tmp_path, transaction_timeout=0.01, hanging_timeout=0.02), FakeLogs(2)
    with ThreadPoolExecutor(1) as pool:
        group = Group(
            settings, ["a"], [TABLE], ["out"], pool, lambda *_: FakeProducer(), lambda _: cast(Logs, logs)
        )  # fmt: skip
        group.check()
        chosen, anywhere = ("dead", 0), ("spread", -1)
        group.wait_written_decided(1, {chosen, anywhere}, lambda: False)
        offsets = (OFFSETS_TOPIC, offsets_partition(settings.group, 2))
        assert logs.looked == {("out", 1), (TABLE.changelog, 1), offsets, chosen, ("spread", 0), ("spread", 1)}
        for place in (("out", 1), offsets, ("spread", 0)):
            logs.hanging = {place}
            with pytest.raises(Refused, match="hanging transaction"):
                group.wait_written_decided(1, {chosen, anywhere}, lambda: False)
        with pytest.raises(Closed):
            group.wait_written_decided(1, {anywhere}, lambda: True)
        # A worker need not have rights on brokers' own topics.
        logs.forbidden = OFFSETS_TOPIC
        with pytest.raises(Refused, match=r"spread\[0\]"):
            group.wait_written_decided(1, {anywhere}, lambda: False)
        assert offsets not in logs.looked


def test_given_an_output_that_units_write_everywhere_then_all_of_it_must_be_decided_before_one_writes(
    tmp_path: Path,
) -> None:
    settings, logs = config(tmp_path, transaction_timeout=0.01, hanging_timeout=0.02), FakeLogs(3)
    with ThreadPoolExecutor(1) as pool:
        group = Group(
            settings, ["a"], [TABLE], ["out", "merges"], pool, lambda *_: FakeProducer(), lambda _: cast(Logs, logs),
            everywhere=["merges"],
        )  # fmt: skip
        group.check()
        units = group.create_units({1: ["a"]}, cast(Any, None))
        restorer = Restorer(settings, cast(Logs, logs), group.needed, group._facts, lambda _: None)
        everywhere = {("merges", partition) for partition in range(3)}
        looks: dict[str, Callable[[], None]] = {
            "at the start": lambda: restorer._wait_decided(list(units.values())),
            "after a slow transaction": lambda: group.wait_written_decided(1, set(), lambda: False),
        }
        for when, look in looks.items():
            logs.hanging = set()
            look()
            assert everywhere | {("out", 1), (TABLE.changelog, 1)} <= logs.looked, when
            assert ("out", 0) not in logs.looked, when
            logs.hanging = {("merges", 2)}
            with pytest.raises(Refused, match=r"hanging transaction: merges\[2\]"):
                look()
            logs.hanging = {("out", 2)}
            look()  # another unit's
