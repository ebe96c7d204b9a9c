"""Write-behind: whatever is read, flushed, forgotten or lost, rows are those of one commit and never newer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.engine.changelog import SourceMark
from streams.engine.rows import TableRows
from streams.engine.store import Store, StoreState

from .copies import copy_state
from .fakes import Rows

PREFIX = b"t\0"
KEYS = st.sampled_from([b"%d" % number for number in range(8)])
WRITES = st.dictionaries(KEYS, st.none() | st.binary(max_size=3), max_size=4)
STEPS = st.lists(
    st.tuples(st.just("commit"), WRITES)
    | st.tuples(st.just("read"), st.lists(KEYS, max_size=4))
    | st.tuples(st.sampled_from(["flush", "scan", "crash"]), st.none()),
    max_size=25,
)


def at(offset: int) -> StoreState:
    return StoreState(0.0, {}, {"source": SourceMark("id", offset, 1)})


@settings(deadline=None)
@given(STEPS, st.sampled_from([0, 2_000, 1 << 20]), st.sampled_from([0.0, 3600.0]))
def test_invariant_02_given_any_use_then_rows_are_the_last_commits_and_a_crash_leaves_those_of_an_earlier_one(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, object]],
    cache_bytes: int,
    flush_interval: float,
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    store = Store(folder / "0", cache_bytes, flush_interval)
    history: list[dict[bytes, bytes]] = [{}]
    store.load((), at(0))
    for number, (step, what) in enumerate(steps):
        rows = store.table(PREFIX)
        if step == "commit":
            assert isinstance(what, dict)
            committed = history[-1] | what
            history.append({key: value for key, value in committed.items() if value is not None})
            store.commit({PREFIX: what}, at(len(history) - 1))
        elif step == "read":
            assert isinstance(what, list)
            rows.load(what)
            assert [rows.get(key) for key in what] == [history[-1].get(key) for key in what]
        elif step == "flush":
            store.flush()
            assert rows.dirty == 0
        elif step == "scan":
            assert list(rows.scan(b"")) == sorted(history[-1].items())
        else:
            assert contents(folder / "0", folder / f"copy-{number}") in list(enumerate(history))
    store.close()
    assert contents(folder / "0", folder / "end") == (len(history) - 1, history[-1])


def contents(path: Path, copy: Path) -> tuple[int, dict[bytes, bytes]]:
    """The commit a directory stands for and its rows, read in a copy as it is on disk at this moment."""
    store = Store(copy_state(path, copy))
    assert store.state is not None
    rows = {key.removeprefix(PREFIX): value for key, value in store.scan(PREFIX)}
    store.close()
    return store.state.sources["source"].offset, rows


def test_given_a_key_that_changes_in_every_commit_then_it_is_written_once_per_flush() -> None:
    disk = Rows()
    rows = disk.table(PREFIX)
    for number in range(100):
        rows.put({b"hot": b"%d" % number})
    assert [*rows.take_dirty()] == [(PREFIX + b"hot", b"99")]
    assert [*rows.take_dirty()] == []


def test_given_a_table_that_is_on_disk_then_a_scan_of_it_does_not_have_others_written(tmp_path: Path) -> None:
    store = Store(tmp_path / "0", flush_interval=3600.0)
    store.load([(PREFIX + b"a", b"1")], at(0))
    store.commit({b"other\0": {b"hot": b"1"}}, at(1))
    assert list(store.table(PREFIX).scan(b"")) == [(b"a", b"1")]
    assert store.table(b"other\0").dirty == 1
    store.close()


def test_given_rows_in_memory_then_the_disk_is_not_asked_again() -> None:
    disk = Rows({PREFIX + b"a": b"1"})
    rows = disk.table(PREFIX)
    rows.load([b"a", b"none", b"a"])
    assert (rows.get(b"a"), rows.get(b"none")) == (b"1", None)
    rows.grow_old()
    assert rows.get(b"a") == b"1"
    assert disk.many == [[PREFIX + b"a", PREFIX + b"none"]]


def test_given_two_generations_without_use_then_a_row_is_forgotten_and_memory_bounded() -> None:
    disk = Rows({PREFIX + b"a": b"1"})
    rows = disk.table(PREFIX)
    rows.get(b"a")
    for _ in range(2):
        rows.grow_old()
    assert rows.size == 0
    rows.get(b"a")
    assert len(disk.many) == 2


@pytest.mark.parametrize("value_bytes", [10, 1_000, 5_000])
def test_given_many_large_rows_then_memory_stays_within_the_bound(tmp_path: Path, value_bytes: int) -> None:
    bound = 2_000_000
    store = Store(tmp_path / "0", bound, 3600.0)
    value = b"v" * value_bytes
    for number in range(20_000 if value_bytes < 1_000 else 2_000):
        store.commit({PREFIX: {b"%06d" % number: value}}, at(number))
    rows = store.table(PREFIX)
    held = sum(len(generation) for generation in generations(rows)) * value_bytes
    assert 0 < held < bound
    assert rows.get(b"000000") == value
    store.close()


def generations(rows: TableRows) -> tuple[dict[bytes, bytes | None], dict[bytes, bytes | None]]:
    return rows._young, rows._old
