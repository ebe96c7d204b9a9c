"""A rebuild from begin to switch, and back.

    tables like the live ones ─ fold to where the live model stands ─ indexes ─┐
    ┌──────────────────────────────────────────────────────────────────────────┘
    └─► hold the projections ─ fold the rest ─ both at equal offsets ─┬─ one snapshot, let go ─► compare
                                                                      └─ switch in one transaction

Everything a killed rebuild knows is in its schema; the next call goes on from there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import psycopg
from psycopg import sql

from projections import digest
from projections.base import Connection, Projection
from projections.offsets import Offsets, Position
from projections.rebuild import books, starts, tables
from projections.rebuild.folding import RECORDS_MAX, Folding
from projections.rebuild.switching import Switched, holding, switch
from projections.runner import EVENT_DAYS_KEPT
from streams.runtime import logs
from streams.runtime.contract import Contract
from streams.runtime.errors import ConfigurationError, Unavailable
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.settings import Settings

RETRY_S: Final = 2.0
NEAR: Final = 5_000
"""Records behind the live model at which the projections may be held while the rest is folded."""
LOCK: Final = b"SELECT pg_try_advisory_lock(hashtext('playhead.rebuild'))"

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """``done`` of ``total`` records are folded; ``rate`` in records a second since this process began."""

    done: int
    total: int
    rate: float


Told = Callable[[Progress], None]


class Rebuild:
    """One rebuild of ``projection`` in ``schema``, under a lock that one process has at a time. Use as ``with``."""

    def __init__(
        self,
        projection: Projection[Any],
        settings: Settings,
        contract: Contract,
        *,
        schema: str = tables.NEXT,
        failpoint: Failpoint = disarmed,
        stop: threading.Event | None = None,
        records_max: int = RECORDS_MAX,
    ) -> None:
        if not projection.tables:
            raise ConfigurationError(f"projection {projection.name} has no read models to rebuild")
        self._projection = projection
        self._settings = settings
        self._schema = schema
        self._failpoint = failpoint
        self._stop = stop or threading.Event()
        self._offsets = Offsets(projection.name, projection.topic.name)
        self._lock: psycopg.Connection[Any] | None = None
        self._rate = 0.0
        self._records = 0
        self._folding = Folding(schema, projection, settings, contract, failpoint=failpoint, records_max=records_max)

    def __enter__(self) -> Rebuild:
        try:
            with answering():
                # Its transaction must not be the one a switch waits for.
                self._lock = psycopg.connect(**self._settings.postgres.conninfo("owner"), autocommit=True)
                [(free,)] = self._lock.execute(LOCK).fetchall()
            if not free:
                raise ConfigurationError("another rebuild is at work")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._folding.close()
        if self._lock is not None:
            self._lock.close()

    def open(self, start: starts.Start | None) -> bool:
        """Make the schema, or go on with what is there; True when it goes on. ``start`` None: however it began.

        Raises ConfigurationError when what is there is of another rebuild or build, or the live model has read nothing.
        """
        with answering(), connect(self._settings) as tx:
            live = self.live(tx)
            goes_on = tables.exists(tx, self._schema)
            if goes_on:
                books.hold_same(tx, self._schema, self._projection, start)
            elif start is None:
                raise ConfigurationError(f"there is no schema {self._schema}")
            else:
                books.create(tx, self._schema, self._projection, self._settings.kafka, start, live)
                self._failpoint("rebuild.seeded")
        # Committed: what was taken over goes with the offsets it stands for.
        whole = isinstance(start, starts.Beginning) and all(one.log_epoch == 1 for one in live.values())
        self._folding.begin(live, bulk_since=_events_since(datetime.now(UTC)) if whole else None)
        return goes_on

    def catch_up(self, told: Told | None = None) -> bool:
        """Fold until the live model is near, and make the indexes left for then; False when stopped before."""
        began, before = time.monotonic(), self._records
        while True:
            with answering(), connect(self._settings) as tx:
                ends = {partition: one.next_offset for partition, one in self.live(tx).items()}
            total = sum(ends.values())

            def moved(records: int, total: int = total) -> None:
                self._records += records
                self._rate = (self._records - before) / max(1e-3, time.monotonic() - began)
                if told is not None:
                    told(Progress(self._done(), total, self._rate))

            behind = total - self._done()
            if not self._folding.fold(ends, self._stop, moved):
                return False
            moved(0)
            if behind <= NEAR and self._indexed():
                return True

    def compare(self) -> list[digest.Compared]:
        """The live model (first) against the rebuilt one (second), both at the same offsets, at one moment.

        The projections are held until that moment is fixed, not while tables are read.
        """
        with answering(), connect(self._settings) as snapshot:
            snapshot.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            with self._met():
                snapshot.execute("SELECT FROM model.offsets LIMIT 1")
            lasting = digest.Lasting(_events_since(datetime.now(UTC)), self._folding.begins())
            return digest.compare(snapshot, tables.LIVE, self._schema, self._projection.tables, lasting)

    def switch(self, tries: int = 1) -> Switched:
        """Make the rebuilt tables the live ones; the former live ones are kept in schema model_old.

        Raises Unavailable when readers or projections do not let go, in none of ``tries``: nothing is changed then.
        """
        while True:
            tries -= 1
            try:
                with answering(), self._met() as held:
                    done = switch(held, self._schema, self._projection, self._failpoint)
                break
            except Unavailable as exc:
                if tries <= 0 or self._stop.wait(RETRY_S):
                    raise
                _log.warning("not switched, trying again", reason=str(exc))
                self.catch_up()
        self._failpoint("rebuild.switched")
        _log.info("switched", projection=self.projection, model_epoch=done.model_epoch, held_ms=done.held_ms)
        return done

    def drop(self) -> None:
        """Keep nothing of it."""
        with answering(), connect(self._settings) as tx:
            tables.drop(tx, self._schema)

    @property
    def projection(self) -> str:
        return self._projection.name

    @property
    def poison(self) -> int:
        """Records that can't be applied; dead letters of the live model's making."""
        return self._folding.poison

    @property
    def records(self) -> int:
        """Folded by this process."""
        return self._records

    @property
    def rate(self) -> float:
        """Records a second of the last ``catch_up``, its indexes included."""
        return self._rate

    @contextmanager
    def _met(self) -> Iterator[Connection]:
        """Every projection is held and the schema is where the live model is, within the transaction given."""
        with holding(self._settings) as tx:
            ends = {partition: one.next_offset for partition, one in self.live(tx).items()}
            if not self._folding.fold(ends, self._stop):
                raise Unavailable("stopped")
            self._failpoint("rebuild.met")
            yield tx

    def live(self, tx: Connection) -> dict[int, Position]:
        """Where the live projection stands. Raises ConfigurationError when it has never run."""
        rows = tx.execute(
            "SELECT partition FROM model.offsets WHERE projection = %s AND topic = %s AND topic_id IS NOT NULL",
            (self._projection.name, self._projection.topic.name),
        ).fetchall()
        if len(rows) != self._projection.topic.partitions:
            raise ConfigurationError(
                f"projection {self._projection.name} has not read its log yet: run 'playhead project "
                f"{self._projection.name}' first"
            )
        return self._offsets.read(tx, [row[0] for row in rows])

    def _done(self) -> int:
        return sum(one.next_offset for one in self._folding.positions.values())

    def _indexed(self) -> bool:
        """True when all indexes are there; else makes them and returns False, for the live model went on meanwhile."""
        with answering(), connect(self._settings) as tx:
            about = books.about(tx, self._schema)
            assert about is not None
            if about[4]:
                return True
            for table in self._projection.tables:
                tables.index(tx, self._schema, table, unique=False)
            tx.execute(sql.SQL("UPDATE {} SET indexed = true").format(sql.Identifier(self._schema, "about")))
        with answering(), connect(self._settings) as tx:
            for table in self._projection.tables:
                tx.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(self._schema, table)))
        self._failpoint("rebuild.indexed")
        return False


def connect(settings: Settings) -> psycopg.Connection[Any]:
    """As the owner: making, moving and dropping tables is the owner's."""
    return psycopg.connect(**settings.postgres.conninfo("owner"))


def _events_since(now: datetime) -> date:
    """Explanations older than this may or may not have been dropped; a day of margin on either side of midnight."""
    return (now - timedelta(days=EVENT_DAYS_KEPT - 1)).date()


@contextmanager
def answering() -> Iterator[None]:
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as exc:
        raise ConfigurationError("the owner may not do this: run 'playhead migrate --superuser-url …' again") from exc
    except (psycopg.OperationalError, psycopg.InterfaceError) as exc:
        raise Unavailable(f"PostgreSQL does not answer: {type(exc).__name__}") from exc
