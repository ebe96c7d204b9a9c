"""What the door has accepted and can't send on yet: on disk, in order, until it is in Kafka.

    put ──► queue ──► one thread: all that waits in one transaction ──fsync──► answered
    oldest ──► published ──► done (deleted)

One SQLite file in write-ahead mode with synchronous=FULL for each process: a committed transaction is on disk, a
torn one is found by the checksums of its frames and never was; deleting a row is how far the drain has come. Puts
that arrive while the disk works share its next flush. Libraries that make a queue of SQLite commit each item
alone or pickle it, so this is the standard library's.

    <root>/<name>/lock      held by flock while its process lives
    <root>/<name>/spool.db  and its -wal and -shm

A folder whose process is gone is adopted: its rows go behind one's own, then it is deleted. The rows hold names
of people: folders are 0700, files 0600, deleted rows are overwritten, an emptied file shrinks to nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import queue
import shutil
import sqlite3
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from streams.runtime import logs, metrics
from streams.runtime.errors import ConfigurationError, Unavailable

ALARM_RATIO = 0.8
ALARM_OVER_RATIO = 0.7
ROW_BYTES = 128
"""What a row costs beside its data, about."""
# Kept small: a file that was emptied and is larger gives its space back.
_PAGES_KEPT = 64
_GROUP_MAX = 1_000
_BUSY_MS = 5_000
_DATABASE, _LOCK = "spool.db", "lock"
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS waiting (number INTEGER PRIMARY KEY AUTOINCREMENT, source_id TEXT NOT NULL,"
    " user TEXT NOT NULL, data BLOB NOT NULL, held TEXT)"
)
_log = logs.get(__name__)

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], Any]


class SpoolAway(Unavailable):
    """Full, or the disk refuses: what was to be kept is not kept."""

    dependency = "spool"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to keep. ``source_id`` and ``user`` say whose, in the source's words; they are also what order
    is kept by. ``data`` is the owner's business."""

    source_id: str
    user: str
    data: bytes

    @property
    def size(self) -> int:
        """Bytes it counts for."""
        return len(self.data) + ROW_BYTES


@dataclass(frozen=True, slots=True)
class Kept:
    """An entry in its place: a smaller ``number`` was accepted earlier."""

    number: int
    entry: Entry


class Spool:
    """The spool of this process; enter it to open it. All methods belong to the event loop that entered it.

    ``bytes_max`` and ``records_max`` bound what it holds (0 records: it takes nothing). Raises
    ConfigurationError when entered with a ``root`` that can't be written.
    """

    def __init__(self, root: Path, *, bytes_max: int, records_max: int) -> None:
        self._root = root
        self._bytes_max = bytes_max
        self._records_max = records_max
        self._bytes = 0
        self._records = 0
        self._alarm = False
        self._whose: Counter[tuple[str, str]] = Counter()
        self._jobs: queue.SimpleQueue[tuple[Job, asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._folder: Path | None = None
        self._lock: int | None = None
        self.waiting = asyncio.Event()
        """Set while there may be something to drain."""

    async def __aenter__(self) -> Self:
        try:
            connection = await asyncio.to_thread(self._open)
        except (OSError, sqlite3.Error) as exc:
            raise ConfigurationError(
                f"the spool can't be made in {self._root} ({exc}): set PLAYHEAD_STATE_DIR to one that can"
            ) from exc
        self._thread = threading.Thread(target=self._work, args=(connection,), name="spool", daemon=True)
        self._thread.start()
        await self.recount()
        await self.adopt()
        self.waiting.set()
        return self

    async def __aexit__(self, *exc: object) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(thread.join)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def records(self) -> int:
        return self._records

    @property
    def bytes(self) -> int:
        """What the entries count for; the file is larger while the write-ahead log is."""
        return self._bytes

    def holds(self, source_id: str, user: str) -> bool:
        """Whether something of this user waits: what comes now must queue behind it."""
        return (source_id, user) in self._whose

    async def put(self, entries: Sequence[Entry]) -> None:
        """Return when all are on disk, in this order. Raises SpoolAway when none is."""
        size = sum(entry.size for entry in entries)
        if self._records + len(entries) > self._records_max or self._bytes + size > self._bytes_max:
            self._measure()
            raise SpoolAway("the spool is full", retry_after_s=10)
        # Counted before it is written: who comes meanwhile must not overtake.
        self._count(entries, 1)
        rows = [(entry.source_id, entry.user, entry.data) for entry in entries]

        def insert(connection: sqlite3.Connection) -> None:
            connection.executemany("INSERT INTO waiting (source_id, user, data) VALUES (?, ?, ?)", rows)

        try:
            await self._run(insert)
        except SpoolAway:
            self._count(entries, -1)
            raise
        metrics.SPOOLED.inc(len(entries))

    async def oldest(self, *, records_max: int, per_user_max: int, bytes_max: int) -> list[Kept]:
        """The first entries that are not held, in order: as many as fit all three limits, at least one."""

        def select(connection: sqlite3.Connection) -> list[Kept]:
            found: list[Kept] = []
            seen: Counter[tuple[str, str]] = Counter()
            size = 0
            for number, source_id, user, data in connection.execute(
                "SELECT number, source_id, user, data FROM waiting WHERE held IS NULL ORDER BY number LIMIT ?",
                (records_max,),
            ):
                seen[source_id, user] += 1
                size += len(data)
                if found and (seen[source_id, user] > per_user_max or size > bytes_max):
                    break
                found.append(Kept(number, Entry(source_id, user, data)))
            return found

        self.waiting.clear()
        found: list[Kept] = await self._run(select)
        if found:
            self.waiting.set()
        else:
            # Somebody else may have deleted (forget): then what is counted here would wait for ever.
            await self.recount()
        return found

    async def done(self, kept: Collection[Kept]) -> None:
        """Delete entries that are in Kafka. Raises SpoolAway; then they are still there."""
        numbers = [(one.number,) for one in kept]

        def delete(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM waiting WHERE number = ?", numbers)

        await self._run(delete)
        self._count([one.entry for one in kept], -1)
        metrics.SPOOL_DRAINED.inc(len(kept))
        if not self._records:
            await self._run(_shrink)

    async def hold(self, kept: Collection[Kept], reason: str) -> None:
        """Leave these where they are until ``release``: now they can't be used, and the others must go on."""
        numbers = [(reason, one.number) for one in kept]

        def update(connection: sqlite3.Connection) -> None:
            connection.executemany("UPDATE waiting SET held = ? WHERE number = ?", numbers)

        await self._run(update)
        metrics.SPOOL_HELD.labels(reason).inc(len(numbers))
        _log.error("spooled reports are held", reason=reason, records=len(numbers))

    async def release(self) -> None:
        """Try the held ones again."""

        def update(connection: sqlite3.Connection) -> int:
            return connection.execute("UPDATE waiting SET held = NULL WHERE held IS NOT NULL").rowcount

        if await self._run(update):
            self.waiting.set()

    async def adopt(self) -> int:
        """Take over what processes that are gone have left; how many entries that were."""
        if self._folder is None:
            return 0
        root, own = self._root, self._folder
        orphans: list[tuple[Path, int]] = []
        try:
            adopted: int = await self._run(lambda connection: _adopt(connection, root, own, orphans))
            # Only now are the rows committed here: the folders they came from may go, locked until they are gone.
            for folder, _ in orphans:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        finally:
            for _, lock in orphans:
                os.close(lock)
        if adopted:
            await self.recount()
            self.waiting.set()
            _log.warning("spool of a process that is gone adopted", records=adopted)
        return adopted

    async def recount(self) -> None:
        """Learn what there is from the file."""

        def select(connection: sqlite3.Connection) -> list[tuple[str, str, int, int]]:
            return connection.execute(
                "SELECT source_id, user, count(*), sum(length(data)) FROM waiting GROUP BY source_id, user"
            ).fetchall()

        before = self._records
        rows: list[tuple[str, str, int, int]] = await self._run(select)
        if self._records != before:
            return  # somebody put something meanwhile: counted already, and the next recount will see it
        self._whose = Counter({(source, user): count for source, user, count, _ in rows})
        self._records = sum(count for _, _, count, _ in rows)
        self._bytes = sum(size + count * ROW_BYTES for _, _, count, size in rows)
        self._measure()

    def _count(self, entries: Sequence[Entry], sign: int) -> None:
        for entry in entries:
            whose = (entry.source_id, entry.user)
            self._whose[whose] += sign
            if self._whose[whose] <= 0:
                del self._whose[whose]
            self._bytes += sign * entry.size
        self._records += sign * len(entries)
        if sign > 0 and entries:
            self.waiting.set()
        self._measure()

    def _measure(self) -> None:
        metrics.SPOOL_RECORDS.set(self._records)
        metrics.SPOOL_BYTES.set(self._bytes)
        full = max(self._records / max(1, self._records_max), self._bytes / max(1, self._bytes_max))
        metrics.SPOOL_FULL.set(full)
        if full >= ALARM_RATIO and not self._alarm:
            self._alarm = True
            _log.error("the spool is nearly full", records=self._records, bytes=self._bytes, ratio=round(full, 2))
        elif full < ALARM_OVER_RATIO and self._alarm:
            self._alarm = False
            _log.info("the spool has room again", records=self._records)

    # --- the thread

    async def _run(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """What ``job`` returns, when the transaction it ran in is on disk. Raises SpoolAway."""
        if self._thread is None:
            raise SpoolAway("the spool is closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put((job, future))
        # Shielded: a caller that goes away must not leave the counts behind what the disk has.
        return await asyncio.shield(future)

    def _work(self, connection: sqlite3.Connection) -> None:
        ended = False
        while not ended:
            group = [self._jobs.get()]
            while len(group) < _GROUP_MAX and group[-1] is not None:
                try:
                    group.append(self._jobs.get_nowait())
                except queue.Empty:
                    break
            ended = group[-1] is None
            self._transaction(connection, [one for one in group if one is not None])
        connection.close()

    def _transaction(self, connection: sqlite3.Connection, group: list[tuple[Job, asyncio.Future[Any]]]) -> None:
        results: list[Any] = []
        error: Exception | None = None
        try:
            connection.execute("BEGIN IMMEDIATE")
            results = [job(connection) for job, _ in group]
            connection.execute("COMMIT")
        except Exception as exc:
            # The text may quote a row: only the class and SQLite's own name of the error go on.
            error = SpoolAway(f"the spool can't be written: {getattr(exc, 'sqlite_errorname', type(exc).__name__)}")
            with contextlib.suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        for place, (_, future) in enumerate(group):
            value = None if error is not None else results[place]
            # The loop may be closed: nobody waits for this answer any more.
            with contextlib.suppress(RuntimeError):
                future.get_loop().call_soon_threadsafe(_settle, future, value, error)

    def _open(self) -> sqlite3.Connection:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = next(_orphans(self._root, None), None)
        if found is None:
            folder = self._root / uuid.uuid4().hex
            folder.mkdir(mode=0o700)
            lock = _locked(folder)
            assert lock is not None, "nobody else knows this folder"
            _sync_folder(self._root)
            found = (folder, lock)
        folder, self._lock = found
        try:
            connection = _connect(folder)
        except sqlite3.DatabaseError as exc:
            if isinstance(exc, sqlite3.OperationalError):
                raise  # locked, or the disk is full: nothing is wrong with the file
            _put_aside(folder, exc)
            os.close(self._lock)
            return self._open()
        self._folder = folder
        return connection


def forget(root: Path, source_id: str, user: str) -> int:
    """Delete what waits of a user, in the spools of all processes; how many entries. Raises Unavailable."""
    deleted = 0
    for database in sorted(root.glob(f"*/{_DATABASE}")):
        try:
            with contextlib.closing(_connect(database.parent)) as connection:
                found = connection.execute("DELETE FROM waiting WHERE source_id = ? AND user = ?", (source_id, user))
                deleted += found.rowcount
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as exc:
            raise SpoolAway(f"a spool can't be searched: {type(exc).__name__}") from None
    return deleted


def _settle(future: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
        future.exception()  # seen: whoever asked may be gone
    else:
        future.set_result(value)


def _connect(folder: Path) -> sqlite3.Connection:
    path = folder / _DATABASE
    # Made before SQLite does: its -wal and -shm get the same rights.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_BUSY_MS / 1000)
    try:
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA secure_delete=ON").fetchall()
        connection.execute(_SCHEMA)
        connection.execute("SELECT count(*), max(number) FROM waiting").fetchall()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _shrink(connection: sqlite3.Connection) -> None:
    """Give the space of an emptied file back, if it can be; outside the transaction, which is begun again."""
    connection.execute("COMMIT")
    with contextlib.suppress(sqlite3.Error):
        empty = connection.execute("SELECT NOT EXISTS (SELECT 1 FROM waiting)").fetchone()[0]
        if empty and connection.execute("PRAGMA page_count").fetchone()[0] > _PAGES_KEPT:
            connection.execute("VACUUM")
        if empty:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.execute("BEGIN IMMEDIATE")


def _adopt(connection: sqlite3.Connection, root: Path, own: Path, orphans: list[tuple[Path, int]]) -> int:
    """Copy what orphans hold; those that were read whole are put into ``orphans``, still locked."""
    adopted = 0
    for folder, lock in _orphans(root, own):
        orphans.append((folder, lock))
        rows: list[tuple[str, str, bytes]] = []
        number = 0
        while True:
            try:
                with contextlib.closing(_connect(folder)) as orphan:
                    found = orphan.execute(
                        "SELECT number, source_id, user, data FROM waiting WHERE number > ? ORDER BY number LIMIT ?",
                        (number, _GROUP_MAX),
                    ).fetchall()
            except sqlite3.DatabaseError as exc:
                orphans.remove((folder, lock))
                if not isinstance(exc, sqlite3.OperationalError):
                    _put_aside(folder, exc)
                os.close(lock)
                break
            if not found:
                break
            number = found[-1][0]
            rows = [(source_id, user, data) for _, source_id, user, data in found]
            connection.executemany("INSERT INTO waiting (source_id, user, data) VALUES (?, ?, ?)", rows)
            adopted += len(rows)
    return adopted


def _put_aside(folder: Path, error: Exception) -> None:
    """Torn by more than a crash: it stays for whoever can read it, under a name that nothing here looks at."""
    folder.rename(folder.with_name(f"{folder.name}.damaged"))
    _log.error("a spool can't be read and was put aside", error_class=type(error).__name__)


def _orphans(root: Path, own: Path | None) -> Iterator[tuple[Path, int]]:
    """Folders whose process is gone, each with its lock, which the caller closes."""
    for folder in sorted(root.iterdir()):
        if folder == own or not folder.is_dir() or folder.suffix:
            continue
        lock = _locked(folder)
        if lock is not None:
            yield folder, lock


def _locked(folder: Path) -> int | None:
    """A descriptor that holds the folder's lock, None when somebody else has it or the folder is gone."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Deleted between opening and locking: then the lock is of nothing.
        if os.stat(folder / _LOCK).st_ino == os.fstat(lock).st_ino:
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
