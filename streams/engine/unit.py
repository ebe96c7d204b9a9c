"""A unit: one partition number of the app, and everything that belongs to it alone.

That partition of every source topic and every changelog, the transactional id ``<group>-<number>``,
the directory ``<state_dir>/<number>``, at most one batch between poll and commit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from confluent_kafka import Message, TopicPartition

from .batch import Batch, RawOutput, TableSpec
from .buffer import Buffer
from .changelog import SourceMark, source_key
from .config import EngineConfig
from .errors import Aborted, Closed, Crash
from .parts import Parts
from .rows import Value
from .store import Position, Store, StoreState
from .transaction import Changes, GroupMetadata, Header, ProducerFactory, Transactions, kafka_producer

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
        #: When the last commit was answered, and where it wrote; None once all of it is known to be decided.
        self._answered: float | None = None
        self._written: frozenset[tuple[str, int]] = frozenset()
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

        Its coordinator may as well have been restarted since the transaction before it was answered. If this one is
        aborted then, it may have taken parts of that one back: Crash, the next start looks (:mod:`.lost`). If it is
        committed it has mended them, except where it did not write: that has to be decided, or Refused.
        """
        began = time.monotonic()
        failpoint = self._config.failpoint
        with self.lock:
            if self.dead or self._transactions is None:
                raise Closed(f"unit {self.partition} was given away")
            state = self.store.state
            if state is None:
                raise Crash(f"unit {self.partition}: commit before restore")
            before = state.sources.get(batch.topic)
            mark = self._mark(state, batch.topic, batch.next_offset, 0 if before is None else before.epoch)
            changes = self._changes(batch, mark)
            after = self._transact(
                self._transactions,
                state,
                batch.raw_outputs(),
                changes,
                {batch.topic: mark},
                self._parts(batch, changes, before),
                (batch.position(batch.records[-1], 0).header(),),
            )
            persisted = self.store.commit(
                {overlay.prefix: overlay.writes for overlay in batch.overlays.values() if overlay.writes}, after
            )
            self.applied[batch.topic] = batch.next_offset
            failpoint("stored")
            if persisted:
                failpoint("persisted")
        return time.monotonic() - began

    def record_start(self) -> None:
        """Commit where the unit starts, wherever marks, group and local store do not all say so already.

        What an operator has accepted holds from then on, also when nothing is left to process. Marks that lie in the
        changelog of another table, or name other tables than there are now, are written where the next start looks;
        a group whose offsets have expired gets them back, for tools that show lag. A source that was never processed
        has nothing to record. After restore, before the first commit; raises Crash when it is aborted. When it dies
        over it, the next start may find that the group's offset, which does not change, proves it, and write it again:
        the operator has said so.
        """
        with self.lock:
            if self.dead or self._transactions is None:
                return
            state = self.store.state
            assert state is not None
            marks: dict[str, SourceMark] = {}
            for topic, offset in self.start_at.items():
                before, committed = state.sources.get(topic), self.committed[topic]
                if before is None and committed is None:
                    continue
                epoch = 0 if before is None else before.epoch + (offset < before.offset)
                mark = self._mark(state, topic, offset, epoch)
                if mark != before or committed is None:
                    marks[topic] = mark
            if not marks:
                return
            last = next(reversed(marks))
            replaced = state.sources.get(last)
            try:
                after = self._transact(
                    self._transactions,
                    state,
                    (),
                    {self.marks_topic: {source_key(topic): mark.encode() for topic, mark in marks.items()}},
                    marks,
                    Parts(
                        None if replaced is None else replaced.offset,
                        marks[last].offset,
                        {(self.marks_topic, self.partition): len(marks)},
                    ),
                )
            except Aborted as error:
                raise Crash(str(error)) from error
            self.store.load((), after)

    def _transact(
        self,
        transactions: Transactions,
        state: StoreState,
        outputs: Iterable[RawOutput],
        changes: Mapping[str, Changes],
        marks: dict[str, SourceMark],
        parts: Parts,
        headers: tuple[Header, ...] = (),
    ) -> StoreState:
        """Commit one transaction, as ``commit`` says; return the state that the local store may follow to."""
        elsewhere = frozenset(place for place in parts.counts if place[0] not in changes)
        started = time.monotonic()
        try:
            ends = transactions.commit(
                outputs,
                changes,
                [TopicPartition(topic, self.partition, mark.offset) for topic, mark in marks.items()],
                self._group,
                (*headers, parts.header()),
            )
        except Aborted as error:
            if (took := time.monotonic() - started) >= SLOW_TRANSACTION:
                self._decided(elsewhere, took)
            if self._long_answered:
                raise Crash(
                    f"{error}: it may have taken back what was committed before: the next start looks"
                ) from error
            raise
        self._config.failpoint("committed")
        written = frozenset(parts.counts)
        if (took := time.monotonic() - started) >= SLOW_TRANSACTION:
            self._decided(elsewhere | self._written, took)
            self._answered = None
        else:
            if self._long_answered and not self._written <= written:
                self._decided(self._written)
            self._answered = time.monotonic()
        self._written = written
        return StoreState(
            complete_at=self._config.now(),
            changelogs=state.changelogs
            | {topic: Position(state.changelogs[topic].topic_id, end) for topic, end in ends.items()},
            sources=state.sources | marks,
        )

    def _mark(self, state: StoreState, topic: str, offset: int, epoch: int) -> SourceMark:
        changelogs = tuple(sorted(self.changelog_ids(state).items()))
        return SourceMark(self.sources[topic], offset, self._partitions, changelogs, epoch)

    @property
    def _long_answered(self) -> bool:
        """Whether the last commit is in doubt: answered so long ago that its coordinator may have been restarted."""
        return self._answered is not None and time.monotonic() - self._answered >= SLOW_TRANSACTION

    def _decided(self, outputs: AbstractSet[tuple[str, int]], took: float = 0.0) -> None:
        """Return when what was written to ``outputs`` and to all that this unit always writes to is decided.

        ``took``: how long a slow transaction took, in seconds.
        """
        if took:
            log.warning("unit %s: a transaction took %.1f s: waiting until all is decided", self.partition, took)
        self.waiting_since = time.monotonic()
        try:
            self._wait_decided(self.partition, outputs, lambda: self.dead)
        finally:
            self.waiting_since = None

    def write_again(self, records: Iterable[Message]) -> None:
        """Commit records of the last transaction that were lost of it. Before restore; the store does not follow.

        Raises Closed when the unit was given away, Crash otherwise.
        """
        with self.lock:
            if self.dead or self._transactions is None:
                raise Closed(f"unit {self.partition} was given away")
            try:
                self._transactions.write_again(records)
            except Aborted as error:
                raise Crash(str(error)) from error

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

    def _changes(self, batch: Batch, mark: SourceMark) -> dict[str, dict[bytes, Value]]:
        changes = {overlay.changelog: dict(overlay.writes) for overlay in batch.overlays.values() if overlay.writes}
        changes.setdefault(self.marks_topic, {})[source_key(batch.topic)] = mark.encode()
        return changes

    def _parts(self, batch: Batch, changes: Mapping[str, Changes], mark: SourceMark | None) -> Parts:
        counts = batch.places() | {(topic, self.partition): len(rows) for topic, rows in changes.items()}
        first = batch.records[0].offset()
        assert first is not None
        return Parts(None if mark is None else mark.offset, first, counts)

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
