from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.engine import Crash
from streams.engine.changelog import SourceMark, source_key, source_of
from streams.engine.store import Position, Store, StoreState

STATE = StoreState(12.5, {"log": Position("id", 7)}, {"source": SourceMark("sid", 3, 4)})


@settings(deadline=None)
@given(
    st.floats(0, 2**40),
    st.dictionaries(st.text(max_size=5), st.builds(Position, st.text(max_size=5), st.integers(0, 2**63))),
)
def test_given_any_state_then_it_reads_back(complete_at: float, changelogs: dict[str, Position]) -> None:
    state = StoreState(complete_at, changelogs, STATE.sources)
    assert StoreState.decode(state.encode()) == state


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b'{"format": 2}', STATE.encode()[:-2], b"\xff"])
def test_given_a_damaged_state_then_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        StoreState.decode(raw)


def test_invariant_02_given_a_write_then_rows_and_position_are_there_together(tmp_path: Path) -> None:
    store = Store(tmp_path / "0")
    assert store.state is None
    store.load([(b"t\0a", b"1"), (b"t\0b", b"2")], STATE)
    store.load([(b"t\0a", None)], STATE)
    store.close()
    again = Store(tmp_path / "0")
    assert again.state == STATE
    assert list(again.scan(b"t\0")) == [(b"t\0b", b"2")]
    again.close()


def test_invariant_08_given_a_damaged_directory_then_it_opens_empty(tmp_path: Path) -> None:
    store = Store(tmp_path / "0")
    store.load([(b"t\0a", b"1")], STATE)
    store.close()
    (tmp_path / "0" / "CURRENT").write_bytes(b"nonsense")
    again = Store(tmp_path / "0")
    assert again.state is None
    assert again.discarded
    assert again.get_many([b"t\0a"]) == [None]
    again.close()


def test_given_a_directory_in_use_then_the_worker_ends_and_nothing_is_deleted(tmp_path: Path) -> None:
    store = Store(tmp_path / "0")
    store.load([(b"t\0a", b"1")], STATE)
    with pytest.raises(Crash, match="in use"):
        Store(tmp_path / "0")
    assert store.get_many([b"t\0a"]) == [b"1"]
    store.close()


def flip(path: Path) -> None:
    """Damage the blocks of a table; its footer stays, so that opening it works."""
    content = bytearray(path.read_bytes())
    content[10:40] = bytes(byte ^ 0xFF for byte in content[10:40])
    path.write_bytes(content)


def closed_with_a_table(path: Path) -> None:
    """Make a store whose rows lie in a sorted table."""
    for _ in range(2):
        store = Store(path)
        store.load([(b"t\0%04d" % number, b"value") for number in range(500)], STATE)
        store.close()
    Store(path).close()  # recovery writes what is in the log to a table


def test_given_a_damaged_block_then_it_is_not_taken_for_a_lock(tmp_path: Path) -> None:
    closed_with_a_table(tmp_path / "0")
    for table in (tmp_path / "0").glob("*.sst"):
        flip(table)
    again = Store(tmp_path / "0")
    assert again.discarded is not None
    assert "block checksum mismatch" in again.discarded
    assert again.state is None
    again.close()


def test_given_damage_that_shows_only_when_a_row_is_read_then_the_next_start_rebuilds(tmp_path: Path) -> None:
    path = tmp_path / "0"
    store = Store(path)
    store.load([(b"t\0a", b"1")], STATE)

    class Damaged:
        def get(self, _: object) -> None:
            raise Exception("Corruption: block checksum mismatch")

        def close(self) -> None:
            pass

    store._db.close()
    store._db = Damaged()
    with pytest.raises(Crash, match="the next start rebuilds it"):
        store.get_many([b"t\0a"])
    store.close()
    again = Store(path)
    assert again.discarded == "Corruption: block checksum mismatch"
    assert again.state is None
    again.close()


def test_given_a_flush_that_failed_then_no_position_is_written_without_its_rows(tmp_path: Path) -> None:
    store = Store(tmp_path / "0", flush_interval=60)
    store.load([(b"t\0a", b"1")], STATE)
    later = StoreState(13.5, {"log": Position("id", 9)}, STATE.sources)
    store.commit({b"t\0": {b"b": b"2"}}, later)
    database = store._db

    class Full:
        def write(self, _: object) -> None:
            raise Exception("IO error: No space left on device")

    store._db = Full()
    with pytest.raises(Crash, match="No space left"):
        store.flush()
    store._db = database
    store.commit({b"t\0": {b"c": b"3"}}, later)
    with pytest.raises(Crash, match="a write failed before"):
        list(store.table(b"t\0").scan(b""))
    store.close()
    again = Store(tmp_path / "0")
    assert again.state == STATE
    assert list(again.scan(b"t\0")) == [(b"t\0a", b"1")]
    again.close()


def test_given_a_source_mark_then_key_and_value_read_back() -> None:
    mark = SourceMark("AbC_-1", 12, 4)
    assert SourceMark.decode(mark.encode()) == mark
    assert source_of(source_key("a.topic")) == "a.topic"
    assert source_of(b"a row") is None
