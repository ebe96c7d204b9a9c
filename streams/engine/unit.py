"""A unit: one partition number of the app, and everything that belongs to it alone.

That partition of every source topic and every changelog, the transactional id ``<group>-<number>``,
the directory ``<state_dir>/<number>``, at most one batch between poll and commit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from confluent_kafka import TopicPartition

from .batch import Batch, TableSpec
from .buffer import Buffer
from .changelog import SourceMark, source_key
from .config import EngineConfig
from .errors import Aborted, Closed, Crash
from .store import Position, Store, StoreState
from .transaction import Change, GroupMetadata, ProducerFactory, Transactions, kafka_producer

log = logging.getLogger(__name__)

#: A transaction that took so long (s) may have met a restart of its coordinator: no broker is back and no other has
#: taken over with its state loaded in less.
SLOW_TRANSACTION = 2.0

#: Returns when everything in the given partitions of outputs, and in what the unit of this number always writes, is
#: decided; a partition of -1 stands for all. Raises Refused when something hangs, Closed when told to give up.
WaitDecided = Callable[[int, AbstractSet[tuple[str, int]], Callable[[], bool]], None]


class Unit:
    """Created on assignment, used up by revoke or loss; never reopened.

    ``lock`` guards store and producer: commit, replay and close exclude each other. ``dead`` is set
    before close and read under the lock.
    """

    def __init__(
        self,
        config: EngineConfig,
        partition: int,
        sources: Mapping[str, str],
        partitions: int,
        tables: Sequence[TableSpec],
        group: GroupMetadata,
        wait_decided: WaitDecided,
        make_producer: ProducerFactory = kafka_producer,
        cache_bytes: int | None = None,
    ) -> None:
        """``sources``: topic -> topic id; ``partitions``: their common count; ``tables`` not empty.

        ``cache_bytes``: this unit's share of the rows in memory, by default all of the configured.
        """
        self.partition = partition
        self.sources = dict(sources)
        self.tables = tuple(tables)
        self.buffer = Buffer(sources)
        self.inflight: Batch | None = None
        self.lock = threading.Lock()
        self.dead = False
        #: Set by the restoring thread: the poll thread may begin to read its partitions.
        self.restored = False
        #: Consuming; batches may be delivered.
        self.ready = False
        self.paused = False
        #: Per source topic: the group's offset when assigned, and where to consume from once restored.
        self.committed: dict[str, int | None] = dict.fromkeys(sources)
        self.start_at: dict[str, int] = {}
        #: Per source topic the offset before which everything is durable; known once restored.
        self.applied: dict[str, int] = {}
        #: Set while no agent works on a batch of this unit: only then may its store be closed.
        self.idle = threading.Event()
        self.idle.set()
        self._config = config
        self._partitions = partitions
        self._group = group
        self._wait_decided = wait_decided
        #: Since when it waits for a transaction that is over at its coordinator to be decided everywhere.
        self.waiting_since: float | None = None
        self._make_producer = make_producer
        self._cache_bytes = config.cache_bytes if cache_bytes is None else cache_bytes
        self._store: Store | None = None
        self._transactions: Transactions | None = None

    @property
    def store(self) -> Store:
        if self._store is None:
            raise Closed(f"unit {self.partition} has no open store")
        return self._store

    @property
    def path(self) -> Path:
        return self._config.state_dir / str(self.partition)

    @property
    def marks_topic(self) -> str:
        """The changelog that gets the source offsets: that of the first table by name."""
        return min(self.tables, key=lambda table: table.name).changelog

    def changelog_ids(self, state: StoreState) -> dict[str, str]:
        """Return the topic id of each table's changelog, by the table's name."""
        return {table.name: state.changelogs[table.changelog].topic_id for table in self.tables}

    def fence(self) -> None:
        """Take the transactional id. Committed offsets and changelog ends may be read after it only."""
        self._transactions = Transactions(self._config, self.partition, self._make_producer)
        self._transactions.fence()

    def open_store(self) -> Store:
        """Open the local copy. Call with the lock held."""
        self._store = Store(self.path, self._cache_bytes, self._config.flush_interval)
        if self._store.discarded is not None:
            log.warning("unit %s: local state unusable (%s): rebuilding", self.partition, self._store.discarded)
        return self._store

    def commit(self, batch: Batch) -> float:
        """Make a finished batch durable; return how long it took in seconds.

        Outputs, changelog and source offset in one transaction, then rows and position together in the
        local store. Raises Closed when the unit was given away before, Aborted when it may be
        delivered again, anything else ends the worker.

        After a slow transaction, see SLOW_TRANSACTION, nothing more is written before all of it is decided, by the
        calling thread and under the lock: a unit that is given away meanwhile ends the wait. Only then follows the
        local store. If something hangs, Refused ends the worker, and it may be that all of it hangs and is aborted in
        the end: rows that were written before would then be ahead of the changelog. If it is committed instead, they
        are replayed from there.
        """
        began = time.monotonic()
        failpoint = self._config.failpoint
        with self.lock:
            if self.dead or self._transactions is None:
                raise Closed(f"unit {self.partition} was given away")
            state = self.store.state
            if state is None:
                raise Crash(f"unit {self.partition}: commit before restore")
            changelogs = tuple(sorted(self.changelog_ids(state).items()))
            mark = SourceMark(batch.topic_id, batch.next_offset, self._partitions, changelogs)
            started = time.monotonic()
            try:
                ends = self._transactions.commit(
                    batch.raw_outputs(),
                    self._changes(batch, mark),
                    TopicPartition(batch.topic, self.partition, batch.next_offset),
                    self._group,
                    batch.position(batch.records[-1], 0).header(),
                )
            except Aborted:
                self._decided(batch, time.monotonic() - started)
                raise
            failpoint("committed")
            self._decided(batch, time.monotonic() - started)
            persisted = self.store.commit(
                {overlay.prefix: overlay.writes for overlay in batch.overlays.values() if overlay.writes},
                StoreState(
                    complete_at=self._config.now(),
                    changelogs=state.changelogs
                    | {topic: Position(state.changelogs[topic].topic_id, end) for topic, end in ends.items()},
                    sources=state.sources | {batch.topic: mark},
                ),
            )
            self.applied[batch.topic] = batch.next_offset
            failpoint("stored")
            if persisted:
                failpoint("persisted")
        return time.monotonic() - began

    def _decided(self, batch: Batch, took: float) -> None:
        """Return when the transaction of ``batch``, which took so many seconds, is certainly decided everywhere."""
        if took < SLOW_TRANSACTION:
            return
        log.warning("unit %s: a transaction took %.1f s: waiting until all of it is decided", self.partition, took)
        outputs = {(topic, partition) for topic, _, _, partition, *_ in batch.outputs}
        self.waiting_since = time.monotonic()
        try:
            self._wait_decided(self.partition, outputs, lambda: self.dead)
        finally:
            self.waiting_since = None

    @property
    def step(self) -> str:
        """For people: what a running commit is doing."""
        if self.waiting_since is not None:
            return "waiting until all of the transaction is decided"
        transactions = self._transactions
        return transactions.step if transactions is not None else "closed"

    @property
    def flush_due(self) -> bool:
        """Whether commits have been in memory only for longer than the flush interval."""
        store = self._store
        return store is not None and store.due

    def flush(self) -> None:
        """Bring the local store up to date with the last commit, unless the unit was given away."""
        with self.lock:
            if not self.dead and self._store is not None:
                self._store.flush()

    def _changes(self, batch: Batch, mark: SourceMark) -> dict[str, list[Change]]:
        changes: dict[str, list[Change]] = {
            overlay.changelog: list(overlay.writes.items()) for overlay in batch.overlays.values() if overlay.writes
        }
        changes.setdefault(self.marks_topic, []).append((source_key(batch.topic), mark.encode()))
        return changes

    def close(self, wait_idle: float) -> None:
        """Release store and producer, after a running commit and, within ``wait_idle``, the agent."""
        self.dead = True
        self.ready = False
        self.idle.wait(wait_idle)
        with self.lock:
            if self._store is not None:
                self._store.close()
                self._store = None
            if self._transactions is not None:
                self._transactions.close()
                self._transactions = None
