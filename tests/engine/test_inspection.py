"""A look into local state, beside a worker that holds it open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict, WriteBatch

from streams.engine import Refused
from streams.engine.batch import TableSpec
from streams.engine.changelog import SourceMark
from streams.engine.inspection import local_partitions, look_local
from streams.engine.store import STATE_KEY, Position, StoreState

from .fakes import config

TABLE = TableSpec.of("g", "table")
OTHER = TableSpec.of("g", "tables")


class Worker:
    """Holds a unit's directory open, and writes as a store does: rows and state in one batch."""

    def __init__(self, folder: Path) -> None:
        self._db: Any = Rdict(str(folder / "3"), Options(raw_mode=True))

    def write(self, rows: dict[bytes, bytes | None], offset: int) -> None:
        batch: Any = WriteBatch(raw_mode=True)
        for key, value in rows.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        marks = {"source": SourceMark("sid", offset * 2, 4)}
        batch.put(STATE_KEY, StoreState(1.0, {TABLE.changelog: Position("id", offset)}, marks).encode())
        self._db.write(batch)

    def close(self) -> None:
        self._db.close()


def at_work(folder: Path) -> Worker:
    worker = Worker(folder)
    rows: dict[bytes, bytes | None] = {TABLE.prefix + key: b"row " + key for key in (b"b", b"a1", b"a2")}
    worker.write({**rows, OTHER.prefix + b"a3": b"another table's"}, 7)
    return worker


def test_given_a_worker_at_work_then_rows_and_position_of_one_moment_are_seen_beside_it(tmp_path: Path) -> None:
    worker = at_work(tmp_path)
    with look_local(config(tmp_path), "table", 3) as look:
        worker.write({TABLE.prefix + b"a1": b"later"}, 8)
        assert (look.reach.offset, dict(look.reach.sources), look.reach.undecided) == (7, {"source": 14}, 0)
        assert look.get(b"a1") == b"row a1"
        assert look.get(b"none") is None
        assert list(look.scan(b"a")) == [(b"a1", b"row a1"), (b"a2", b"row a2")]
        assert [key for key, _ in look.scan(b"")] == [b"a1", b"a2", b"b"]
    with look_local(config(tmp_path), "table", 3) as look:
        assert (look.reach.offset, look.get(b"a1")) == (8, b"later")
    worker.write({TABLE.prefix + b"b": None}, 9)
    worker.close()
    with look_local(config(tmp_path), "table", 3) as look:
        assert (look.reach.offset, look.get(b"b")) == (9, None)


def test_given_a_look_then_the_workers_folder_has_no_new_file(tmp_path: Path) -> None:
    worker = at_work(tmp_path)
    before = sorted(path.name for path in (tmp_path / "3").iterdir())
    with look_local(config(tmp_path), "table", 3) as look:
        assert look.get(b"b") == b"row b"
    assert sorted(path.name for path in (tmp_path / "3").iterdir()) == before
    worker.close()


def test_given_partitions_then_those_with_a_copy_are_listed(tmp_path: Path) -> None:
    at_work(tmp_path).close()
    (tmp_path / ".other").mkdir()
    assert local_partitions(tmp_path) == [3]
    assert local_partitions(tmp_path / "none") == []


def test_given_no_copy_or_an_unusable_one_then_refused_and_nothing_is_made(tmp_path: Path) -> None:
    at_work(tmp_path).close()
    with pytest.raises(Refused, match="no local state"), look_local(config(tmp_path), "table", 4):
        pass
    assert not (tmp_path / "4").exists()
    with pytest.raises(Refused, match="not g-tables-changelog"), look_local(config(tmp_path), "tables", 3):
        pass
    (tmp_path / "3" / "CURRENT").write_bytes(b"nonsense")
    with pytest.raises(Refused, match="cannot be read"), look_local(config(tmp_path), "table", 3):
        pass
