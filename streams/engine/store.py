"""The local copy of a unit's tables: one RocksDB directory, written only after Kafka.

Every write is one RocksDB batch of rows and the :class:`StoreState` that says how far the changelogs
and the sources are reflected. The copy may lag behind the changelog, it never leads; that is why it
needs no fsync, why commits may wait in memory (:mod:`.rows`) before they are written, and why anything
doubtful about it is answered by deleting it and replaying.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from .changelog import SourceMark
from .errors import Crash
from .rows import TableRows, Value

#: Table prefixes are names, so no row begins with NUL.
STATE_KEY = b"\0state"
FORMAT = 2
#: A file in the directory: do not open it again, it was found damaged while it was in use.
DAMAGED = "DAMAGED"
#: What RocksDB says when another process, or this one, has the directory open.
FOREIGN_LOCK = re.compile(r"IO error: (While lock file|lock hold by current process)")

Rows = Iterable[tuple[bytes, Value]]


@dataclass(frozen=True, slots=True)
class Position:
    """Next offset to read of one changelog partition, and which topic that was."""

    topic_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class StoreState:
    """``complete_at``: wall clock, seconds since 1970, when this copy last held all of its changelogs.

    It stays while a replay is under way: an interrupted one is as old as the copy it began with.
    """

    complete_at: float
    changelogs: dict[str, Position] = field(default_factory=dict)
    sources: dict[str, SourceMark] = field(default_factory=dict)

    def encode(self) -> bytes:
        return json.dumps(
            {
                "format": FORMAT,
                "complete_at": self.complete_at,
                "changelogs": {t: [p.topic_id, p.offset] for t, p in self.changelogs.items()},
                "sources": {topic: mark.encode().decode("ascii") for topic, mark in self.sources.items()},
            }
        ).encode()

    @classmethod
    def decode(cls, raw: bytes) -> StoreState:
        """Raises ValueError when ``raw`` was written by another format or is damaged."""
        try:
            data = json.loads(raw)
            if data["format"] != FORMAT:
                raise ValueError(f"format {data['format']}")
            return cls(
                complete_at=float(data["complete_at"]),
                changelogs={t: Position(i, int(o)) for t, (i, o) in data["changelogs"].items()},
                sources={topic: SourceMark.decode(mark.encode("ascii")) for topic, mark in data["sources"].items()},
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"damaged store state: {error!r}") from error


class Store:
    """An open store. ``state`` is what rows in memory and on disk together stand for; ``None`` when the store is
    new or was unusable (see ``discarded``).

    Invariant: RocksDB holds the rows and the state of one and the same commit, this one or an earlier one.
    """

    def __init__(self, path: Path, cache_bytes: int = 1 << 24, flush_interval: float = 0.0) -> None:
        """Open or create. An unusable directory is deleted; raises Crash when another process holds it.

        ``cache_bytes`` bounds the rows in memory, ``flush_interval`` (s) how long they stay only there.
        """
        self.path = path
        self.state: StoreState | None = None
        self.discarded: str | None = None
        #: For what is dirty, what is young and what is old, each.
        self._share = cache_bytes // 3
        self._flush_interval = flush_interval
        self._tables: dict[bytes, TableRows] = {}
        #: Monotonic time of the oldest commit that is only in memory.
        self._unwritten_since: float | None = None
        #: A write failed and took rows with it: what is on disk stays of one commit, nothing more is written.
        self._failed = False
        #: A flush beside another would mix their order.
        self._flushing = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            if (path / DAMAGED).exists():
                raise ValueError((path / DAMAGED).read_text("utf-8"))
            self._db: Any = _open(path)
            raw = self._db.get(STATE_KEY)
            self.state = None if raw is None else StoreState.decode(raw)
        except Exception as error:
            # rocksdict raises bare Exception with RocksDB's text; only a foreign lock is not damage.
            if FOREIGN_LOCK.match(str(error)):
                raise Crash(f"state directory {path} is in use by another process: {error}") from error
            self.discarded = str(error)
            self.wipe()

    def wipe(self) -> None:
        """Delete everything and open empty."""
        self._tables.clear()
        self._unwritten_since = None
        self._release()
        shutil.rmtree(self.path, ignore_errors=True)
        self._db = _open(self.path)
        self.state = None

    def table(self, prefix: bytes) -> TableRows:
        """Return the rows whose stored keys start with ``prefix``."""
        rows = self._tables.get(prefix)
        if rows is None:
            rows = self._tables[prefix] = TableRows(self, prefix)
        return rows

    def load(self, rows: Rows, state: StoreState) -> None:
        """Write a piece of a replay, past the memory, in one RocksDB batch. Only before the first commit."""
        self._write(rows, state)
        self.state = state

    def commit(self, changes: Mapping[bytes, Mapping[bytes, Value]], state: StoreState) -> bool:
        """Take the changes (by table prefix) of a batch that Kafka has committed; return whether all is on disk."""
        for prefix, writes in changes.items():
            self.table(prefix).put(writes)
        self.state = state
        if self._unwritten_since is None:
            self._unwritten_since = time.monotonic()
        tables = self._tables.values()
        many = max(sum(rows.dirty_size for rows in tables), sum(rows.size for rows in tables)) > self._share
        if many or self.due:
            self.flush()
            if sum(rows.size for rows in tables) > self._share:
                for rows in tables:
                    rows.grow_old()
        return self._unwritten_since is None

    @property
    def due(self) -> bool:
        """Whether commits wait in memory for longer than they should."""
        since = self._unwritten_since
        return since is not None and time.monotonic() - since >= self._flush_interval

    def flush(self) -> None:
        """Bring RocksDB to ``state``: dirty rows and state in one batch. Not beside a commit.

        Raises Crash when a write fails or has failed.
        """
        with self._flushing:
            self._check()
            if self._unwritten_since is None or self.state is None:
                return
            taken = [table.take_dirty() for table in self._tables.values()]
            self._write(chain.from_iterable(taken), self.state)
            self._unwritten_since = None

    def settle(self) -> None:
        """Return when no flush runs. Raises Crash when a write has failed: its rows are neither dirty nor on disk."""
        with self._flushing:
            self._check()

    def _check(self) -> None:
        if self._failed:
            raise Crash(f"local state {self.path}: a write failed before, and it lags behind")

    def _write(self, rows: Rows, state: StoreState) -> None:
        batch: Any = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in rows:
            if value is None:
                delete(key)
            else:
                put(key, value)
        put(STATE_KEY, state.encode())
        try:
            self._db.write(batch)
        except Exception as error:
            self._failed = True
            raise self._unusable(error) from error

    def get_many(self, keys: list[bytes]) -> list[Value]:
        """Return what is on disk, in the order of ``keys``."""
        try:
            values: list[Value] = self._db.get(keys)
        except Exception as error:
            raise self._unusable(error) from error
        return values

    def scan(self, prefix: bytes, after: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows on disk whose key starts with ``prefix``, in key order, from behind ``after``, as of the call."""
        start = prefix if after is None else max(prefix, after + b"\0")
        rows: Iterator[tuple[bytes, bytes]] = self._db.items(from_key=start)
        while True:
            try:
                key, value = next(rows)
            except StopIteration:
                return
            except Exception as error:
                raise self._unusable(error) from error
            if not key.startswith(prefix):
                return
            yield key, value

    def _unusable(self, error: Exception) -> Crash:
        """Return what ends the worker. Damage that shows only now would show again: the next life starts without."""
        if str(error).startswith("Corruption"):
            (self.path / DAMAGED).write_text(str(error), "utf-8")
            return Crash(f"local state {self.path} is damaged, the next start rebuilds it: {error}")
        return Crash(f"local state {self.path}: {error}")

    def close(self) -> None:
        """Flush, unless a write has failed, and release the directory. Closing twice is fine."""
        try:
            if self._db is not None and not self._failed:
                self.flush()
        finally:
            self._release()

    def _release(self) -> None:
        db = getattr(self, "_db", None)
        self._db = None
        if db is not None:
            db.close()


def _open(path: Path) -> Any:
    options: Any = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(8 * 1024 * 1024)
    options.set_max_write_buffer_number(2)
    options.set_keep_log_file_num(2)
    db: Any = Rdict(str(path), options)
    # Rows come in key order, so each is looked for where the one before went.
    writes = WriteOptions()
    writes.memtable_insert_hint_per_batch = True
    db.set_write_options(writes)
    return db
