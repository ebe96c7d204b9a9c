"""A scan missed rows that were committed seconds before: a flush had taken them from memory and not yet written them.

An idle unit's rows are flushed in a pool thread. A record came in meanwhile, and the agent deleted what a scan found:
the newest rows of a person who was forgotten stayed for good.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from streams.engine.changelog import SourceMark
from streams.engine.store import Store, StoreState
from streams.local.processes import wait_until

PREFIX = b"t\0"


class Slow:
    """A database whose write waits until it may."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self.writing = threading.Event()
        self.may_write = threading.Event()

    def write(self, batch: Any) -> None:
        self.writing.set()
        assert self.may_write.wait(30)
        self._database.write(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


def test_given_a_flush_elsewhere_that_has_not_written_yet_then_a_scan_returns_all_that_was_committed(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "0", flush_interval=3600.0)
    store.load((), StoreState(0.0))
    store.commit({PREFIX: {b"user:a": b"1", b"user:b": b"2"}}, StoreState(0.0, {}, {"source": SourceMark("id", 1, 1)}))
    rows = store.table(PREFIX)
    store._db = slow = Slow(store._db)
    flush = threading.Thread(target=store.flush)
    flush.start()
    assert slow.writing.wait(30)
    assert rows.get(b"user:a") == b"1"

    found: list[list[tuple[bytes, bytes]]] = []
    scan = threading.Thread(target=lambda: found.append(list(rows.scan(b"user:"))))
    scan.start()
    # Either it returns too early, or it waits for the flush.
    assert not wait_until(lambda: bool(found), 0.2)
    slow.may_write.set()
    for thread in (flush, scan):
        thread.join(30)
    assert found == [[(b"user:a", b"1"), (b"user:b", b"2")]]
    store.close()
