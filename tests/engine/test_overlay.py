from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.engine.changelog import RESERVED
from streams.engine.overlay import ONE_BY_ONE, Overlay, Undo, undo
from streams.engine.rows import TableRows
from streams.engine.store import Store, StoreState

from .fakes import Rows

KEYS = st.binary(max_size=3)
VALUES = st.binary(max_size=3)


def table(rows: dict[bytes, bytes]) -> TableRows:
    return Rows({b"t\0" + k: v for k, v in rows.items()}).table(b"t\0")


def overlay(rows: dict[bytes, bytes], prefetch: list[bytes] | None = None) -> Overlay:
    journal: list[Undo] = []
    return Overlay(table(rows), "changelog", lambda: prefetch or [], journal)


@settings(deadline=None)
@given(
    st.dictionaries(KEYS, VALUES),
    st.lists(st.tuples(KEYS, st.none() | VALUES)),
    st.lists(KEYS),
    KEYS,
    KEYS | st.none(),
)
def test_given_any_writes_then_get_and_scan_are_those_of_a_sorted_dict(
    committed: dict[bytes, bytes],
    writes: list[tuple[bytes, bytes | None]],
    prefetch: list[bytes],
    prefix: bytes,
    after: bytes | None,
) -> None:
    view = overlay(committed, prefetch)
    model = dict(committed)
    for key, value in writes:
        view.set(key, value)
        if value is None:
            model.pop(key, None)
        else:
            model[key] = value
    wanted = sorted(item for item in model.items() if item[0].startswith(prefix))
    assert list(view.scan(prefix)) == wanted
    assert list(view.scan(prefix, after)) == [item for item in wanted if after is None or item[0] > after]
    assert {key: view.get(key) for key in model} == model
    assert view.writes == dict(writes)


@settings(deadline=None)
@given(
    st.lists(st.tuples(KEYS, st.none() | VALUES)),
    st.lists(st.tuples(KEYS, st.none() | VALUES)),
    st.dictionaries(KEYS, VALUES),
)
def test_given_a_journal_then_undoing_it_restores_everything(
    before: list[tuple[bytes, bytes | None]],
    guarded: list[tuple[bytes, bytes | None]],
    committed: dict[bytes, bytes],
) -> None:
    journal: list[Undo] = []
    view = Overlay(table(committed), "changelog", list, journal)
    for key, value in before:
        view.set(key, value)
    rows, writes = list(view.scan(b"")), dict(view.writes)
    journal.clear()
    for key, value in guarded:
        view.set(key, value)
    undo(journal)
    assert list(view.scan(b"")) == rows
    assert view.writes == writes
    assert [view.get(key) for key, _ in guarded] == [dict(rows).get(key) for key, _ in guarded]


def test_given_many_absent_rows_then_the_first_are_read_one_by_one_and_the_rest_at_once() -> None:
    keys = [b"%02d" % number for number in range(3 * ONE_BY_ONE)]
    disk = Rows({b"t\0" + key: b"v" + key for key in keys[::2]})
    view = Overlay(disk.table(b"t\0"), "changelog", lambda: [*keys, *keys], [])
    assert [view.get(key) for key in keys] == [b"v" + key if not at % 2 else None for at, key in enumerate(keys)]
    assert disk.many[:-1] == [[b"t\0" + key] for key in keys[:ONE_BY_ONE]]
    assert disk.many[-1] == [b"t\0" + key for key in keys[ONE_BY_ONE:]]


def test_given_few_absent_rows_then_the_keys_of_the_batch_are_not_asked_for() -> None:
    rows = table({b"t\0known": b"1"})

    def prefetch() -> list[bytes]:
        raise AssertionError("asked")

    view = Overlay(rows, "changelog", prefetch, [])
    for number in range(ONE_BY_ONE - 1):
        view.get(b"%d" % number)
        view.get(b"known")


def test_given_a_reserved_key_or_wrong_types_then_refused() -> None:
    view = overlay({})
    with pytest.raises(ValueError, match="reserved"):
        view.set(RESERVED + b"topic", b"x")
    with pytest.raises(TypeError):
        view.set("text", b"x")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        view.set(b"k", 1)  # type: ignore[arg-type]


def test_given_a_real_store_then_scan_stays_inside_its_table(tmp_path: Path) -> None:
    store = Store(tmp_path / "0")
    rows: list[tuple[bytes, bytes | None]] = [
        (b"a\0x", b"other"), (b"t\0k1", b"1"), (b"t\0k2", b"2"), (b"t\0m", b"3"), (b"u\0k", b"other"),
    ]  # fmt: skip
    store.load(rows, StoreState(0.0))
    view = Overlay(store.table(b"t\0"), "changelog", list, [])
    view.set(b"k15", b"new")
    view.set(b"k2", None)
    assert list(view.scan(b"k")) == [(b"k1", b"1"), (b"k15", b"new")]
    assert list(view.scan(b"")) == [(b"k1", b"1"), (b"k15", b"new"), (b"m", b"3")]
    assert list(view.scan(b"", b"k1")) == [(b"k15", b"new"), (b"m", b"3")]
    assert list(view.scan(b"k", b"a")) == [(b"k1", b"1"), (b"k15", b"new")]
    assert list(view.scan(b"", b"m")) == []
    store.close()
