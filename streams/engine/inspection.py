"""Look into the tables of an app that may be running: opens no port, joins no group, takes no lock.

Two ways. A *local* look opens a unit's RocksDB directory as a secondary instance beside its worker; it is
instant, needs no broker, and shows the copy as of its own position: the copy of a running worker may lag
what is committed. A *committed* look replays the changelog partition read_committed to its stable end;
that is the truth, and takes as long as a restore.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocksdict import AccessType, Options, Rdict

from .batch import TableSpec
from .changelog import SourceMark, newest_marks, source_of
from .config import EngineConfig
from .errors import Refused
from .logs import Logs
from .reading import key_of, read
from .resume import replay_start
from .store import STATE_KEY, StoreState

Row = tuple[bytes, bytes]
#: A running worker may compact away a file between its listing and its opening.
_OPEN_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a look goes: every changelog record before ``offset``, every source record before ``sources``.

    ``undecided`` changelog records lie behind it in transactions that are neither committed nor aborted.
    """

    partition: int
    changelog: str
    offset: int
    sources: Mapping[str, int]
    undecided: int = 0


class Look:
    """One partition of one table at one position. Rows come in key order."""

    def __init__(self, reach: Reach, get: Callable[[bytes], bytes | None], scan: Callable[[bytes], Iterator[Row]]):
        self.reach = reach
        self.get = get
        self.scan = scan


def local_partitions(state_dir: Path) -> list[int]:
    """Return the partition numbers that have a copy in ``state_dir``."""
    if not state_dir.is_dir():
        return []
    return sorted(int(entry.name) for entry in state_dir.iterdir() if entry.name.isdigit() and entry.is_dir())


@contextmanager
def look_local(config: EngineConfig, name: str, partition: int) -> Iterator[Look]:
    """Open one partition of the table ``name`` in ``config.state_dir``, beside a worker that may be using it.

    Valid inside ``with``. Rows and position are those of one moment. Raises Refused when there is no copy, when
    it is unusable, or when it does not hold this table.
    """
    table = TableSpec.of(config.group, name)
    path = config.state_dir / str(partition)
    if not (path / "CURRENT").is_file():
        raise Refused(f"partition {partition} has no local state in {config.state_dir}")
    with tempfile.TemporaryDirectory(prefix="engine-look-") as own_log:
        db = _open_beside(path, Path(own_log))
        try:
            raw = db.get(STATE_KEY)
            if raw is None:
                raise Refused(f"{path}: its worker has not begun to restore it")
            try:
                state = StoreState.decode(raw)
            except ValueError as error:
                raise Refused(f"{path}: {error}: written by another version of the engine?") from error
            position = state.changelogs.get(table.changelog)
            if position is None:
                raise Refused(f"{path} holds {sorted(state.changelogs)}, not {table.changelog}")
            sources = {topic: mark.offset for topic, mark in state.sources.items()}
            cut = len(table.prefix)

            def scan(prefix: bytes) -> Iterator[Row]:
                for key, value in db.items(from_key=table.prefix + prefix):
                    if not key.startswith(table.prefix + prefix):
                        return
                    yield key[cut:], value

            yield Look(
                Reach(partition, table.changelog, position.offset, sources),
                lambda key: db.get(table.prefix + key),
                scan,
            )
        finally:
            db.close()


def look_committed(
    config: EngineConfig, name: str, partition: int, *, key: bytes | None = None, prefix: bytes = b""
) -> Look:
    """Replay one changelog partition of the table ``name`` to what is committed now, keeping the rows of ``key`` or
    ``prefix`` only.

    Raises Refused when the changelog is missing or its head is gone, Crash when the brokers do not answer
    within ``operation_timeout``.
    """
    table = TableSpec.of(config.group, name)
    logs = Logs(config)
    facts = logs.describe([table.changelog])
    if table.changelog not in facts:
        raise Refused(f"{table.changelog} does not exist: no worker has run here yet, or under another group")
    if partition >= facts[table.changelog].partitions:
        raise Refused(f"{table.changelog} has {facts[table.changelog].partitions} partitions, no {partition}")
    found = logs.ranges([(table.changelog, partition)], facts)[table.changelog, partition]
    start = replay_start(table.changelog, partition, None, found)
    rows: dict[bytes, bytes] = {}
    marks: dict[str, SourceMark] = {}
    for record in read(config, table.changelog, partition, start, found.stable):
        record_key, value = key_of(record), record.value()
        source = source_of(record_key)
        if source is not None:
            if value is not None:
                marks = newest_marks(marks, {source: SourceMark.decode(value)})
        elif record_key != key if key is not None else not record_key.startswith(prefix):
            continue
        elif value is None:
            rows.pop(record_key, None)
        else:
            rows[record_key] = value
    return Look(
        Reach(
            partition,
            table.changelog,
            found.stable,
            {topic: mark.offset for topic, mark in marks.items()},
            undecided=max(0, found.end - found.stable),
        ),
        rows.get,
        lambda wanted: iter(sorted(row for row in rows.items() if row[0].startswith(wanted))),
    )


def _open_beside(path: Path, own_log: Path) -> Any:
    for attempt in range(1, _OPEN_ATTEMPTS + 1):
        try:
            return Rdict(str(path), Options(raw_mode=True), access_type=AccessType.secondary(str(own_log)))
        except Exception as error:  # rocksdict raises bare Exception with RocksDB's text
            if attempt == _OPEN_ATTEMPTS:
                raise Refused(f"{path} cannot be read: {error}") from error
    raise AssertionError
