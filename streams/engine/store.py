"""The local copy of a unit's tables: one RocksDB directory, written only after Kafka.

Every write is one RocksDB batch of rows and the :class:`StoreState` that says how far the changelogs
and the sources are reflected. The copy may lag behind the changelog, it never leads; that is why it
needs no fsync, and why anything doubtful about it is answered by deleting it and replaying.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocksdict import Options, Rdict, WriteBatch

from .changelog import SourceMark
from .errors import Crash

#: Table prefixes are names, so no row begins with NUL.
STATE_KEY = b"\0state"
FORMAT = 1

Rows = Iterable[tuple[bytes, bytes | None]]


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
                "sources": {t: [m.topic_id, m.offset, m.partitions] for t, m in self.sources.items()},
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
                sources={t: SourceMark(i, int(o), int(n)) for t, (i, o, n) in data["sources"].items()},
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"damaged store state: {error!r}") from error


class Store:
    """An open store. ``state`` is ``None`` when it is new (or was unusable, see ``discarded``)."""

    def __init__(self, path: Path) -> None:
        """Open or create. An unusable directory is deleted; raises Crash when another process holds it."""
        self.path = path
        self.state: StoreState | None = None
        self.discarded: str | None = None
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db: Any = _open(path)
            raw = self._db.get(STATE_KEY)
            self.state = None if raw is None else StoreState.decode(raw)
        except Exception as error:
            # rocksdict raises bare Exception with RocksDB's text; only a foreign lock is not damage.
            if "lock" in str(error).lower():
                raise Crash(f"state directory {path} is in use by another process: {error}") from error
            self.discarded = str(error)
            self.wipe()

    def wipe(self) -> None:
        """Delete everything and open empty."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)
        self._db = _open(self.path)
        self.state = None

    def write(self, rows: Rows, state: StoreState) -> None:
        """Apply ``rows`` (``None`` deletes) and ``state`` in one RocksDB batch."""
        batch: Any = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in rows:
            if value is None:
                delete(key)
            else:
                put(key, value)
        put(STATE_KEY, state.encode())
        self._db.write(batch)
        self.state = state

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._db.get(key)
        return value

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the values in the order of ``keys``."""
        values: list[bytes | None] = self._db.get(keys)
        return values

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows whose key starts with ``prefix``, in key order, as of the call."""
        rows: Iterator[tuple[bytes, bytes]] = self._db.items(from_key=prefix)
        for key, value in rows:
            if not key.startswith(prefix):
                return
            yield key, value

    def close(self) -> None:
        """Release the directory. Closing twice is fine."""
        db = getattr(self, "_db", None)
        if db is not None:
            self._db = None
            db.close()


def _open(path: Path) -> Any:
    options: Any = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(16 * 1024 * 1024)
    options.set_max_write_buffer_number(3)
    options.set_keep_log_file_num(2)
    return Rdict(str(path), options)
