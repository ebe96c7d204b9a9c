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


def test_given_a_source_mark_then_key_and_value_read_back() -> None:
    mark = SourceMark("AbC_-1", 12, 4)
    assert SourceMark.decode(mark.encode()) == mark
    assert source_of(source_key("a.topic")) == "a.topic"
    assert source_of(b"a row") is None
