"""The transaction of a batch, against a fake broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from streams.engine import Crash, Refused, SourcePosition
from streams.engine.batch import Batch
from streams.engine.changelog import SourceMark, source_key
from streams.engine.config import EngineConfig
from streams.engine.errors import Aborted, Closed
from streams.engine.parts import Parts
from streams.engine.unit import Unit

from .fakes import CHANGELOG_ID, TABLE, TOPIC_ID, FakeProducer, config, kafka_error, make_batch, record, restored_unit


def prepared(unit: Unit, settings: EngineConfig, *, offset: int = 4) -> Batch:
    batch = make_batch(settings, [record(offset)], unit.store)
    for message in batch:
        batch.overlay(TABLE).set(b"k", b"first")
        batch.overlay(TABLE).set(b"k", b"last")
        batch.send("out", b"o", b"k", 0)
        assert message.offset() == offset
    return batch


def test_invariant_01_given_a_batch_then_outputs_changelog_and_offset_are_in_one_transaction(tmp_path: Path) -> None:
    settings, producer = config(tmp_path), FakeProducer()
    unit = restored_unit(settings, producer)
    unit.commit(prepared(unit, settings))
    assert producer.log == [
        "init_transactions", "begin", "produce out", f"produce {TABLE.changelog}", f"produce {TABLE.changelog}",
        "offsets", "flush", "commit",
    ]  # fmt: skip
    assert producer.committed == [
        ("out", b"k", b"o"),
        (TABLE.changelog, b"k", b"last"),
        (TABLE.changelog, source_key("source"), SourceMark(TOPIC_ID, 5, 1, ((TABLE.name, CHANGELOG_ID),)).encode()),
    ]
    assert [(tp.topic, tp.partition, tp.offset) for tp in producer.offsets] == [("source", 0, 5)]
    unit.close(0)


def test_invariant_02_given_a_commit_then_the_store_has_rows_and_position_of_the_same_batch(tmp_path: Path) -> None:
    settings, producer = config(tmp_path), FakeProducer()
    unit = restored_unit(settings, producer)
    unit.commit(prepared(unit, settings))
    assert unit.store.table(TABLE.prefix).get(b"k") == b"last"
    assert unit.store.state is not None
    assert unit.store.state.sources["source"].offset == 5
    assert unit.store.state.changelogs[TABLE.changelog].offset == 3
    unit.close(0)


STEPS = ["begin", "produce out", f"produce {TABLE.changelog}", "offsets", "flush", "commit"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", ["abort", "fatal", "unknown"])
def test_invariant_02_given_a_failure_before_the_commit_then_the_store_is_untouched(
    tmp_path: Path, step: str, kind: str
) -> None:
    settings, producer = config(tmp_path), FakeProducer()
    unit = restored_unit(settings, producer)
    before = unit.store.state
    errors: dict[str, BaseException] = {
        "abort": kafka_error(abort=True), "fatal": kafka_error(fatal=True), "unknown": RuntimeError("?"),
    }  # fmt: skip
    producer.errors[step] = [errors[kind]]
    with pytest.raises({"abort": Aborted, "fatal": Crash, "unknown": RuntimeError}[kind]):
        unit.commit(prepared(unit, settings))
    assert unit.store.table(TABLE.prefix).get(b"k") is None
    assert unit.store.state == before
    assert producer.committed == []
    assert ("abort" in producer.log) is (kind == "abort")
    unit.close(0)


def test_given_a_retriable_error_then_the_call_is_repeated(tmp_path: Path) -> None:
    settings, producer = config(tmp_path), FakeProducer()
    unit = restored_unit(settings, producer)
    producer.errors = {"offsets": [kafka_error(retriable=True)] * 2, "commit": [kafka_error(retriable=True)]}
    unit.commit(prepared(unit, settings))
    assert producer.log.count("commit") == 2
    unit.close(0)


def test_invariant_10_given_a_commit_whose_outcome_stays_unknown_then_the_worker_ends(tmp_path: Path) -> None:
    settings, producer = config(tmp_path, operation_timeout=0.05), FakeProducer()
    unit = restored_unit(settings, producer)
    producer.errors["commit"] = [kafka_error(retriable=True)] * 1000
    with pytest.raises(Crash, match="commit_transaction"):
        unit.commit(prepared(unit, settings))
    assert "abort" not in producer.log
    unit.close(0)


def test_invariant_10_given_an_abort_that_fails_then_the_worker_ends(tmp_path: Path) -> None:
    settings, producer = config(tmp_path), FakeProducer()
    unit = restored_unit(settings, producer)
    producer.errors = {"commit": [kafka_error(abort=True)], "abort": [kafka_error(abort=True)]}
    with pytest.raises(Crash, match="abort"):
        unit.commit(prepared(unit, settings))
    unit.close(0)


def test_pitfall_05_given_a_fenced_producer_then_closing_it_does_not_raise(tmp_path: Path) -> None:
    for error in (kafka_error(fatal=True), RuntimeError("fenced"), SystemError("callback")):
        producer = FakeProducer()
        unit = restored_unit(config(tmp_path), producer)
        producer.errors["close"] = [error]
        unit.close(0)
        assert unit.dead


def test_pitfall_10_given_a_systemerror_out_of_a_callback_then_it_is_not_taken_for_an_abort(tmp_path: Path) -> None:
    settings, producer = config(tmp_path), FakeProducer()
    unit = restored_unit(settings, producer)
    producer.errors["flush"] = [SystemError("error return without exception set")]
    with pytest.raises(SystemError):
        unit.commit(prepared(unit, settings))
    assert unit.store.table(TABLE.prefix).get(b"k") is None
    unit.close(0)


def test_given_a_unit_that_was_given_away_then_its_batch_does_not_commit(tmp_path: Path) -> None:
    settings, producer = config(tmp_path), FakeProducer()
    unit = restored_unit(settings, producer)
    batch = prepared(unit, settings)
    unit.close(0)
    with pytest.raises(Closed):
        unit.commit(batch)
    assert "begin" not in producer.log


class Waits:
    """Stands in for the group: records what a unit waits for, and answers with ``outcome``."""

    def __init__(self, outcome: BaseException | None = None) -> None:
        self.outcome = outcome
        self.asked: list[tuple[int, set[tuple[str, int]]]] = []
        self.seen: list[str] = []
        self.unit: Unit | None = None

    def __call__(self, partition: int, outputs: AbstractSet[tuple[str, int]], given_up: Callable[[], bool]) -> None:
        self.asked.append((partition, set(outputs)))
        unit = self.unit
        assert unit is not None
        assert not given_up()
        assert unit.lock.locked()
        self.seen = [unit.step, str(unit.store.table(TABLE.prefix).get(b"k"))]
        if isinstance(self.outcome, Closed):
            unit.dead = True
            assert given_up()
        if self.outcome is not None:
            raise self.outcome


def slow_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: Waits, threshold: float = 0.0
) -> tuple[EngineConfig, FakeProducer, Unit]:
    """Every transaction takes as long as ``threshold`` demands when that is 0."""
    monkeypatch.setattr("streams.engine.unit.SLOW_TRANSACTION", threshold)
    settings, producer = config(tmp_path), FakeProducer()
    waits.unit = unit = restored_unit(settings, producer, waits)
    return settings, producer, unit


def test_given_a_slow_commit_then_all_it_wrote_is_decided_before_the_store_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits()
    settings, _, unit = slow_unit(tmp_path, monkeypatch, waits)
    batch = prepared(unit, settings)
    batch.send("elsewhere", b"o", b"k", None, record=batch.records[0])
    unit.commit(batch)
    assert waits.asked == [(0, {("out", 0), ("elsewhere", -1)})]
    assert waits.seen == ["waiting until all of the transaction is decided", "None"]
    assert unit.waiting_since is None
    assert unit.step == "commit_transaction"
    assert unit.store.table(TABLE.prefix).get(b"k") == b"last"
    unit.close(0)


def test_given_a_quick_commit_then_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = Waits()
    settings, _, unit = slow_unit(tmp_path, monkeypatch, waits, threshold=60.0)
    unit.commit(prepared(unit, settings))
    assert waits.asked == []
    unit.close(0)


@pytest.mark.parametrize("outcome", [Refused("hanging transaction"), Closed("given away"), Crash("brokers away")])
def test_given_a_slow_commit_of_which_something_hangs_then_the_store_stays_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Exception
) -> None:
    settings, producer, unit = slow_unit(tmp_path, monkeypatch, Waits(outcome))
    before = unit.store.state
    with pytest.raises(type(outcome), match=str(outcome)):
        unit.commit(prepared(unit, settings))
    assert producer.committed
    assert unit.store.state == before
    assert unit.store.table(TABLE.prefix).get(b"k") is None
    assert unit.waiting_since is None
    assert unit.applied == {}
    unit.close(0)


def test_given_a_slow_abort_then_it_is_decided_everywhere_before_the_records_are_delivered_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits()
    settings, producer, unit = slow_unit(tmp_path, monkeypatch, waits)
    producer.errors["commit"] = [kafka_error(abort=True)]
    with pytest.raises(Aborted):
        unit.commit(prepared(unit, settings))
    assert len(waits.asked) == 1
    assert producer.log[-1] == "abort"
    unit.close(0)


def test_given_a_commit_answered_long_ago_then_an_abort_ends_the_worker_and_the_next_start_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits()
    settings, producer, unit = slow_unit(tmp_path, monkeypatch, waits, threshold=60.0)
    unit.commit(prepared(unit, settings))
    producer.errors["commit"] = [kafka_error(abort=True)] * 2
    with pytest.raises(Aborted):  # nobody was restarted in so short a time
        unit.commit(prepared(unit, settings, offset=5))
    monkeypatch.setattr("streams.engine.unit.SLOW_TRANSACTION", 0.0)
    with pytest.raises(Crash, match="the next start looks"):
        unit.commit(prepared(unit, settings, offset=5))
    assert producer.log[-1] == "abort"
    assert len(waits.asked) == 1
    unit.close(0)


def test_given_a_slow_commit_that_is_decided_then_the_next_abort_is_an_ordinary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, producer, unit = slow_unit(tmp_path, monkeypatch, Waits())
    unit.commit(prepared(unit, settings))
    producer.errors["commit"] = [kafka_error(abort=True)]
    with pytest.raises(Aborted):
        unit.commit(prepared(unit, settings, offset=5))
    unit.close(0)


def test_given_a_commit_answered_long_ago_then_where_the_next_does_not_write_is_decided_before_the_store_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits()
    settings, _, unit = slow_unit(tmp_path, monkeypatch, waits, threshold=60.0)
    batch = prepared(unit, settings)
    batch.send("elsewhere", b"o", b"k", 3, record=batch.records[0])
    unit.commit(batch)
    clock = Clock(time.monotonic() + 120.0)
    monkeypatch.setattr("streams.engine.unit.time", clock)
    unit.commit(prepared(unit, settings, offset=5))
    assert waits.asked == [(0, {("out", 0), ("elsewhere", 3), (TABLE.changelog, 0)})]
    clock.now += 120.0
    unit.commit(prepared(unit, settings, offset=6))
    assert len(waits.asked) == 1, "the same partitions: it has mended what hung there"
    unit.close(0)


class Clock:
    """Stands in for the module ``time``."""

    def __init__(self, now: float) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now


def test_given_a_batch_then_the_last_record_of_each_changelog_says_where_it_came_from(tmp_path: Path) -> None:
    settings, producer = config(tmp_path), FakeProducer()
    unit = restored_unit(settings, producer)
    unit.commit(make_batch(settings, [record(4), record(5)], unit.store))
    parts = Parts(None, 4, {(TABLE.changelog, 0): 1})
    assert producer.headers[TABLE.changelog] == [SourcePosition("source", TOPIC_ID, 0, 5, 0).header(), parts.header()]
    batch = make_batch(settings, [record(6)], unit.store)
    for _ in batch:
        batch.send("out", b"o", b"k", 2)
        batch.send("out", b"o", b"k", 2)
        batch.send("out", b"o", b"k")
    unit.commit(batch)
    parts = Parts(6, 6, {("out", 2): 2, ("out", -1): 1, (TABLE.changelog, 0): 1})
    assert Parts.from_headers(producer.headers[TABLE.changelog]) == parts
    unit.close(0)


@hypothesis_settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.lists(
                st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.none() | st.sampled_from([b"1", b"2"])), max_size=4
            ),
            st.sampled_from([None, "abort at commit", "abort at flush", "kill after commit"]),
        ),
        max_size=8,
    )
)
def test_given_any_faults_then_log_and_store_are_the_fold_of_the_committed_batches(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[list[tuple[bytes, bytes | None]], str | None]]
) -> None:
    """Model of the unit: whatever aborts or dies, Kafka holds whole batches and the store never leads."""
    killed = False

    def failpoint(name: str) -> None:
        if killed and name == "committed":
            raise KeyboardInterrupt

    settings, producer = config(tmp_path_factory.mktemp("model"), failpoint=failpoint), FakeProducer()
    unit = restored_unit(settings, producer)
    model: dict[bytes, bytes | None] = {}
    stored: dict[bytes, bytes | None] = {}
    for offset, (writes, fault) in enumerate(batches):
        batch = make_batch(settings, [record(offset)], unit.store)
        for key, value in writes:
            batch.overlay(TABLE).set(key, value)
        producer.errors = {}
        if fault is not None and fault.startswith("abort"):
            producer.errors[fault.rsplit(" ", 1)[1]] = [kafka_error(abort=True)]
            with pytest.raises(Aborted):
                unit.commit(batch)
            batch = make_batch(settings, [record(offset)], unit.store, attempt=2)
            for key, value in writes:
                batch.overlay(TABLE).set(key, value)
        model |= dict(writes)
        killed = fault == "kill after commit"
        if killed:
            with pytest.raises(KeyboardInterrupt):
                unit.commit(batch)
            break
        unit.commit(batch)
        stored |= dict(writes)
    log = {
        key: value
        for topic, key, value in producer.committed
        if topic == TABLE.changelog and key is not None and not key.startswith(b"\0")
    }
    assert log == model
    rows = {key: row for key, row in stored.items() if row is not None}
    assert dict(unit.store.table(TABLE.prefix).scan(b"")) == rows
    assert [tp.offset for tp in producer.offsets] == list(range(1, len(producer.offsets) + 1))
    unit.close(0)
