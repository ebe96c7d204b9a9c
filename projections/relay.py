"""The relay: outbox rows to cache.invalidated, at least once.

One transaction: read, publish, wait for Kafka's acknowledgements, delete. There is no cursor, because a
transaction that commits late would be skipped by one; what is in the table is what has to be published. One
relay works at a time (an advisory lock), so invalidations of a key keep their order; a second one stands by. Keys of
the library have a share of each transaction and no more: what tells of playback is at most one transaction away.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
import xxhash

from projections.attention import Attention
from projections.base import Connection
from projections.database import Writer
from projections.outbox import BULK, CHANNEL
from schemas.events import CacheInvalidated
from schemas.placement import partition_of
from schemas.topics import CACHE_INVALIDATED
from streams.runtime import logs, metrics
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.contract import Contract
from streams.runtime.errors import Unavailable
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.outlet import Outlet
from streams.runtime.publisher import Record
from streams.runtime.settings import Settings

ROWS_MAX = 2_000
BULK_ROWS_MAX = 500
POLL_S = 1.0
COUNT_EVERY_S = 5.0
BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 3.0
# Any constant will do, as long as all relays of a database use the same.
_LOCK = b"SELECT pg_try_advisory_xact_lock(hashtext('playhead.relay'))"
_COLUMNS = (
    "SELECT id, cache_key, model_epoch, log_epoch, partition, version, correlation_id, event_id, source_id, reason,"
    " committed_at FROM model.outbox"
)
# A key is in one of both for ever, so each keeps its order.
_READ = f"{_COLUMNS} WHERE NOT cache_key LIKE ANY (%s) ORDER BY id LIMIT %s"
_READ_BULK = f"{_COLUMNS} WHERE cache_key LIKE ANY (%s) ORDER BY id LIMIT %s"
_BULK = [f"{prefix}%" for prefix in BULK]

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A row of model.outbox."""

    id: int
    cache_key: str
    model_epoch: int
    log_epoch: int
    partition: int
    version: int
    correlation_id: str
    event_id: str
    source_id: str
    reason: str
    committed_at: datetime

    @property
    def order(self) -> tuple[int, int, int]:
        """Versions of one key compare by this."""
        return self.model_epoch, self.log_epoch, self.version


def coalesce(rows: Iterable[OutboxRow]) -> list[OutboxRow]:
    """The newest row of each key, in the order of their ids: it covers the others, which say "at least"."""
    newest: dict[str, OutboxRow] = {}
    for row in rows:
        known = newest.get(row.cache_key)
        if known is None or row.order >= known.order:
            newest[row.cache_key] = row
    return sorted(newest.values(), key=lambda row: row.id)


def invalidation(row: OutboxRow) -> CacheInvalidated:
    """The event of a row; published twice, it is the same event with the same id."""
    identity = f"{row.cache_key}\0{row.model_epoch}\0{row.log_epoch}\0{row.version}"
    return CacheInvalidated(
        event_id=str(xxhash.xxh128_hexdigest(identity.encode())),
        correlation_id=row.correlation_id,
        source_id=row.source_id,
        occurred_at=None,
        received_at=int(row.committed_at.timestamp() * 1000),
        cache_key=row.cache_key,
        model_epoch=row.model_epoch,
        log_epoch=row.log_epoch,
        partition=row.partition,
        version=row.version,
        reason=row.reason,
    )


class Relay:
    def __init__(
        self, settings: Settings, contract: Contract, *, clock: Clock | None = None, failpoint: Failpoint = disarmed
    ) -> None:
        conninfo = settings.postgres.conninfo("relay")
        self._contract = contract
        self._clock = clock or SystemClock()
        self._failpoint = failpoint
        self._writer = Writer(conninfo)
        self._outlet = Outlet(settings.kafka)
        self._ear = _Ear(conninfo)
        self._attention = Attention()
        self._counted_at = 0.0
        self._random = random.Random()  # noqa: S311 - spreads retries

    def run(self, stop: threading.Event) -> None:
        """Publish until ``stop`` is set. Waits for PostgreSQL and Kafka when they are away; ends with
        ConfigurationError when one of them refuses."""
        failures = 0
        try:
            while not stop.is_set():
                try:
                    published = self.publish_some()
                    self._look_around()
                    if not published:
                        self._ear.wait(POLL_S)
                    if failures:
                        _log.info("going on", after_failures=failures)
                    failures = 0
                except Unavailable as exc:
                    failures += 1
                    if failures == 1:
                        _log.warning("waiting", reason=str(exc))
                    longest = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** min(failures, 10))
                    stop.wait(self._random.uniform(BACKOFF_FIRST_S, longest))
        finally:
            self.close()

    def publish_some(self) -> bool:
        """Publish what lies in the outbox, at most ROWS_MAX rows and BULK_ROWS_MAX of the library; False when it was
        empty or another relay is at work. Afterwards the rows are gone and acknowledged by Kafka, or still there."""
        with self._writer.transaction() as tx:
            if not _first(tx, _LOCK):
                return False
            prompt = tx.execute(_READ.encode(), (_BULK, ROWS_MAX)).fetchall()
            bulk = tx.execute(_READ_BULK.encode(), (_BULK, BULK_ROWS_MAX)).fetchall()
            rows = [OutboxRow(*row) for row in (*prompt, *bulk)]
            self._count(tx, rows, more=len(prompt) == ROWS_MAX or len(bulk) == BULK_ROWS_MAX)
            if not rows:
                return False
            self._failpoint("relay.read_outbox")
            newest = coalesce(rows)
            self._outlet.publish([self._record(row) for row in newest])
            self._failpoint("relay.published")
            tx.execute("DELETE FROM model.outbox WHERE id = ANY(%s)", ([row.id for row in rows],))
        self._failpoint("relay.deleted")
        self._account(rows, newest)
        return True

    def _look_around(self) -> None:
        """In a transaction of its own: invalidations do not wait for counts."""
        if self._attention.due:
            with self._writer.transaction() as tx:
                self._attention.look(tx)

    def close(self) -> None:
        self._ear.close()
        self._outlet.close()
        self._writer.close()

    def _record(self, row: OutboxRow) -> Record:
        key = row.cache_key.encode()
        value = self._contract.encode(invalidation(row))
        return Record(CACHE_INVALIDATED.name, partition_of(key, CACHE_INVALIDATED.partitions), key, value)

    def _count(self, tx: Connection, rows: Sequence[OutboxRow], *, more: bool) -> None:
        """Set the gauges of waiting rows; counting a long outbox is work, so not every time."""
        oldest_at = min((row.committed_at.timestamp() for row in rows), default=None)
        oldest_s = 0.0 if oldest_at is None else max(0.0, self._clock.now_ms() / 1000 - oldest_at)
        metrics.OUTBOX_OLDEST_SECONDS.set(oldest_s)
        if not more:
            metrics.OUTBOX_ROWS.set(len(rows))
        elif time.monotonic() - self._counted_at >= COUNT_EVERY_S:
            self._counted_at = time.monotonic()
            metrics.OUTBOX_ROWS.set(_first(tx, b"SELECT count(*) FROM model.outbox"))

    def _account(self, rows: list[OutboxRow], newest: list[OutboxRow]) -> None:
        now_ms = self._clock.now_ms()
        metrics.OUTBOX_ROWS.dec(len(rows))
        metrics.INVALIDATIONS.inc(len(newest))
        metrics.INVALIDATIONS_COALESCED.inc(len(rows) - len(newest))
        for row in newest:
            metrics.INVALIDATION_LAG_SECONDS.observe(max(0.0, now_ms / 1000 - row.committed_at.timestamp()))
            _log.debug("invalidated", correlation_id=row.correlation_id, event_id=row.event_id, version=row.version)


class _Ear:
    """Waits for the projection's NOTIFY; when it can't listen, waiting is just sleeping."""

    def __init__(self, conninfo: Mapping[str, Any]) -> None:
        self._conninfo = dict(conninfo)
        self._connection: Connection | None = None

    def wait(self, timeout_s: float) -> None:
        """Return when woken, or after ``timeout_s``. Raises Unavailable when the connection is lost."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(**{**self._conninfo, "autocommit": True})
                self._connection.execute(f"LISTEN {CHANNEL}".encode())
                # What was written before we listened has woken nobody.
                return
            for _ in self._connection.notifies(timeout=timeout_s, stop_after=1):
                return
        except (psycopg.OperationalError, psycopg.InterfaceError) as exc:
            self.close()
            raise Unavailable(f"PostgreSQL does not answer: {type(exc).__name__}") from exc

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _first(tx: Connection, query: bytes) -> Any:
    row = tx.execute(query).fetchone()
    assert row is not None
    return row[0]
