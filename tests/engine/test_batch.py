from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from streams.engine import PermanentError, Refused, SourcePosition
from streams.engine.batch import ANY_PARTITION, Prefetch, TableSpec
from streams.engine.overlay import ONE_BY_ONE

from .fakes import GROUP, TABLE, TOPIC_ID, Letters, Rows, config, make_batch, record


def test_given_outputs_then_each_carries_position_and_index_of_its_cause(tmp_path: Path) -> None:
    batch = make_batch(config(tmp_path), [record(5), record(9)])
    seen = []
    for message in batch:
        seen.append(message.offset())
        batch.send("out", b"1")
        batch.send("out", b"2", headers=[("h", b"x")])
    positions = [SourcePosition.from_headers(headers) for *_, headers in batch.raw_outputs()]
    assert positions == [SourcePosition("source", TOPIC_ID, 0, offset, index) for offset in (5, 9) for index in (0, 1)]
    assert [*batch.raw_outputs()][1][-1][0] == ("h", b"x")
    assert batch.outputs[0][3] == ANY_PARTITION
    assert seen == [5, 9]


RECORDS = 4
#: What an agent does with a batch: which record it guards, what it sends there (cause, topic, partition), and whether
#: the record is given up then.
STEPS = st.lists(
    st.tuples(
        st.integers(0, RECORDS - 1),
        st.lists(st.tuples(st.integers(0, RECORDS - 1), st.sampled_from("ab"), st.sampled_from([None, 0, 1]))),
        st.booleans(),
    )
)


@given(steps=STEPS)
def test_given_records_taken_up_in_any_order_then_outputs_of_each_are_numbered_without_gap_and_counted_by_place(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, list[tuple[int, str, int | None]], bool]]
) -> None:
    settings = config(tmp_path_factory.getbasetemp(), dead_letter=Letters())
    batch = make_batch(settings, [record(n) for n in range(RECORDS)])
    for guarded, sends, fails in steps:
        with batch.guard(batch.records[guarded]):
            for cause, topic, partition in sends:
                before = sum(output[4] == cause for output in batch.outputs)
                assert batch.send(topic, b"x", partition=partition, record=batch.records[cause]) == before
            if fails:
                raise PermanentError("bad")
    numbers: dict[int, list[int]] = {}
    for output in batch.outputs:
        numbers.setdefault(output[4], []).append(output[5])
    assert all(found == [*range(len(found))] for found in numbers.values())
    assert batch.places() == Counter((output[0], output[3]) for output in batch.outputs)


def test_given_no_cause_then_send_is_refused(tmp_path: Path) -> None:
    batch = make_batch(config(tmp_path), [record(5)])
    with pytest.raises(RuntimeError, match="caused by"):
        batch.send("out", b"1")
    assert batch.send("out", b"1", record=batch.records[0]) == 0


def test_given_a_permanent_error_then_only_that_record_is_undone_and_dead_lettered(tmp_path: Path) -> None:
    rows = Rows({b"table\0k": b"old"})
    batch = make_batch(config(tmp_path, dead_letter=Letters()), [record(n) for n in range(3)], rows)
    for message in batch.records:
        with batch.guard(message):
            table = batch.overlay(TABLE)
            table.set(b"k", b"%d" % (message.offset() or 0))
            batch.send("out", b"x")
            if message.offset() == 1:
                assert table.get(b"k") == b"1"
                raise PermanentError("bad")
    assert batch.overlay(TABLE).writes == {b"k": b"2"}
    assert [output[0] for output in batch.outputs] == ["out", "dead", "out"]
    assert SourcePosition.from_headers([*batch.raw_outputs()][1][-1]) == SourcePosition("source", TOPIC_ID, 0, 1, 0)
    assert batch.dead == [1]
    assert batch.guarded == 3


def test_given_a_table_first_used_by_the_failing_record_then_it_is_undone_too(tmp_path: Path) -> None:
    batch = make_batch(config(tmp_path, dead_letter=Letters()), [record(0)])
    with batch.guard(batch.records[0]):
        batch.overlay(TABLE).set(b"k", b"1")
        raise PermanentError("bad")
    assert batch.overlay(TABLE).writes == {}
    assert batch.overlay(TABLE).get(b"k") is None


def test_given_an_unexpected_error_then_it_passes_through(tmp_path: Path) -> None:
    batch = make_batch(config(tmp_path, dead_letter=Letters()), [record(0)])
    with pytest.raises(RuntimeError, match="bug"), batch.guard(batch.records[0]):
        raise RuntimeError("bug")
    assert batch.outputs == []


def test_given_declared_permanent_types_then_they_are_dead_lettered(tmp_path: Path) -> None:
    settings = config(tmp_path, dead_letter=Letters(), permanent_errors=(UnicodeDecodeError,))
    batch = make_batch(settings, [record(0)])
    with batch.guard(batch.records[0]):
        b"\xff".decode()
    assert batch.dead == [0]


def test_given_no_dead_letter_port_then_a_permanent_error_ends_the_worker(tmp_path: Path) -> None:
    batch = make_batch(config(tmp_path), [record(0)])
    with (
        pytest.raises(Refused, match=r"source\[0\]@0 cannot be processed .*set EngineConfig\.dead_letter"),
        batch.guard(batch.records[0]),
    ):
        raise PermanentError("bad")


def test_given_a_failing_agent_then_the_batch_says_where_it_is(tmp_path: Path) -> None:
    batch = make_batch(config(tmp_path), [record(3), record(7)])
    assert batch.at == "source[0]@3..7"
    with pytest.raises(ZeroDivisionError), batch.guard(batch.records[1]):
        raise ZeroDivisionError
    assert batch.at == "source[0]@7"
    with batch.guard(batch.records[0]):
        assert batch.at == "source[0]@3"
    for message in batch:
        assert batch.at == f"source[0]@{message.offset()}"


def test_given_a_dead_letter_then_the_batch_says_where_it_lies_and_why(tmp_path: Path) -> None:
    batch = make_batch(config(tmp_path, dead_letter=Letters()), [record(3), record(7)])
    for message in batch.records:
        with batch.guard(message):
            raise PermanentError("bad")
    assert batch.last_dead == "source[0]@7: PermanentError('bad')"


def test_given_nested_guards_then_refused(tmp_path: Path) -> None:
    batch = make_batch(config(tmp_path), [record(0)])
    with pytest.raises(RuntimeError, match="nest"), batch.guard(batch.records[0]), batch.guard(batch.records[0]):
        pass


@pytest.mark.parametrize(("prefetch", "field"), [(None, "key"), (Message.value, "value")])
def test_given_many_records_then_the_rows_they_need_are_read_at_once(
    tmp_path: Path, prefetch: Prefetch | None, field: str
) -> None:
    rows = Rows()
    records = [record(at, b"k%02d" % at if at else None, b"v%02d" % at) for at in range(3 * ONE_BY_ONE)]
    batch = make_batch(config(tmp_path), records, rows)
    table = TableSpec.of(GROUP, "rows", prefetch)
    needed = [found for found in (getattr(one, field)() for one in records) if found is not None]
    assert [batch.overlay(table).get(key) for key in needed] == [None] * len(needed)
    assert rows.many[-1] == [b"rows\0" + key for key in needed[ONE_BY_ONE:]]
    assert len(rows.many) == ONE_BY_ONE + 1


def test_given_an_agent_that_waits_then_keep_alive_starts_the_batch_timeout_anew(tmp_path: Path) -> None:
    batch = make_batch(config(tmp_path), [record(0)])
    batch.since = 1.0
    before = time.monotonic()
    batch.keep_alive()
    assert batch.since >= before
