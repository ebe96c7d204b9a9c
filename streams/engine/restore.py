"""Bring the local state of newly assigned units to the end of their changelogs.

Runs in its own thread, outside the rebalance callback, with one consumer for all units; each unit is
handed over as soon as its own replay is done. It begins after the transactional ids are taken, so no
older worker can add to the changelogs any more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from .changelog import SourceMark, newest_marks, source_of
from .config import EngineConfig
from .errors import Closed, Crash
from .former import FormerMarks
from .hanging import wait_places_decided
from .logs import Logs, TopicFacts
from .mending import Mender
from .progress import RestoreProgress
from .reading import PASSING, key_of
from .resume import LogRange, check_changelogs, rebuild_reason, replay_start, resume_offset
from .store import Position, Rows, Store, StoreState
from .topics import Needed, check_unchanged
from .unit import Unit

log = logging.getLogger(__name__)

#: Rows of one write.
DROPPED_AT_ONCE = 10_000

Ranges = Mapping[tuple[str, int], LogRange]


@dataclass(slots=True)
class Replay:
    """One changelog partition on its way to ``end``."""

    unit: Unit
    topic: str
    position: int
    end: int
    waiting: list[Message] = field(default_factory=list)

    @property
    def done(self) -> bool:
        # The commit marker takes an offset but is never seen: the position must come from the
        # end-of-partition event, the last record always lies before the end.
        return self.position >= self.end


class Restorer:
    """Restores the units of one assignment."""

    def __init__(
        self,
        config: EngineConfig,
        logs: Logs,
        needed: Needed,
        facts: Mapping[str, TopicFacts],
        on_restored: Callable[[Unit], None],
    ) -> None:
        self._partitions = facts[needed.sources[0]].partitions
        self._config = config
        self._logs = logs
        self._needed = needed
        self._facts = facts
        self._on_restored = on_restored
        self._mender = Mender(config, logs, needed, facts)
        self._former = FormerMarks(config, logs, needed)
        self._began = time.monotonic()
        self._records: dict[int, int] = {}

    def run(self, units: Iterable[Unit]) -> None:
        """Restore; units given away meanwhile are skipped. Raises Refused or Crash."""
        wanted = [unit for unit in units if not unit.dead]
        if not wanted:
            return
        try:
            with ThreadPoolExecutor(1, "mending") as beside:
                doubtful = beside.submit(self._doubtful, wanted)
                check_unchanged(self._needed, self._facts, self._logs.describe(self._needed.all()))
                self._wait_decided(wanted)
                for unit in wanted:
                    self._open(unit)
            undone = self._mend(doubtful.result())
        except Closed:
            return
        partitions = [unit.partition for unit in wanted]
        ranges = self._logs.ranges(
            [(t, p) for p in partitions for t in (*self._needed.changelogs, *self._needed.sources)],
            self._facts,
        )
        replays = [replay for unit in wanted for replay in self._plan(unit, ranges, undone.get(unit, set()))]
        moving = [replay for replay in replays if not replay.done]
        self._progress = RestoreProgress(
            sorted({replay.unit.partition for replay in moving}),
            sum(replay.end - replay.position for replay in moving),
            self._config.metrics.restoring,
        )
        for unit in wanted:
            if not any(replay.unit is unit for replay in moving):
                self._hand_over(unit, ranges)
        if moving:
            self._replay({(r.topic, r.unit.partition): r for r in moving}, ranges)
        self._progress.end()

    def _wait_decided(self, units: list[Unit]) -> None:
        wait_places_decided(
            self._config,
            self._logs,
            self._facts,
            set[tuple[str, int]]().union(*(self._needed.written(u.partition, self._partitions) for u in units)),
            given_up=lambda: all(unit.dead for unit in units),
        )

    def _doubtful(self, units: list[Unit]) -> list[Unit]:
        return [] if self._config.trust_group_offsets else self._mender.doubtful(units)

    def _mend(self, units: list[Unit]) -> dict[Unit, set[tuple[str, int]]]:
        """Write again what the last transactions of doubtful units have lost; return the marks that were taken back."""
        undone: dict[Unit, set[tuple[str, int]]] = {}
        for unit in units:
            if unit.dead:
                continue
            aftermath = self._mender.examine(unit)
            undone[unit] = aftermath.undone
            self._mender.mend(unit, aftermath)
        return undone

    def _open(self, unit: Unit) -> None:
        """Open a unit's store, unless it was given away."""
        with unit.lock:
            if not unit.dead:
                unit.open_store()

    def _plan(self, unit: Unit, ranges: Ranges, undone: AbstractSet[tuple[str, int]]) -> list[Replay]:
        """Say what to replay into a unit's store; nothing when it was given away."""
        mine = {topic: ranges[topic, unit.partition] for topic in self._needed.changelogs}
        with unit.lock:
            if unit.dead:
                return []
            store = unit.store
            if store.state is not None:
                reason = rebuild_reason(store.state, mine, self._config.now(), self._config.state_max_age)
                if not undone.isdisjoint((topic, mark.offset) for topic, mark in store.state.sources.items()):
                    reason = "it has rows of a transaction that was taken back"
                if reason is not None:
                    log.warning("unit %s: local state is rebuilt: %s", unit.partition, reason)
                    store.wipe()
            if store.state is not None:
                self._drop_rows(store, [t.prefix for t in unit.tables if t.changelog not in store.state.changelogs])
            replays = [
                Replay(unit, topic, replay_start(topic, unit.partition, store.state, log_range), log_range.end)
                for topic, log_range in mine.items()
            ]
            old = store.state
            store.load(
                (),
                StoreState(
                    complete_at=old.complete_at if old is not None else self._config.now(),
                    changelogs={r.topic: Position(mine[r.topic].topic_id, r.position) for r in replays},
                    sources=dict(old.sources) if old is not None else {},
                ),
            )
            return replays

    @staticmethod
    def _drop_rows(store: Store, prefixes: Iterable[bytes]) -> None:
        """Delete the rows of tables that are declared again: of what was deleted since, a replay knows nothing."""
        assert store.state is not None
        for prefix in prefixes:
            rows = store.scan(prefix)
            while some := [(key, None) for key, _ in islice(rows, DROPPED_AT_ONCE)]:
                store.load(some, store.state)

    def _replay(self, replays: dict[tuple[str, int], Replay], ranges: Ranges) -> None:
        consumer = Consumer(self._config.restore_consumer(), logger=log)
        try:
            consumer.assign([TopicPartition(t, p, r.position) for (t, p), r in replays.items()])
            while True:
                for replay in [r for r in replays.values() if r.unit.dead]:
                    self._progress.less(replay.end - replay.position)
                    del replays[replay.topic, replay.unit.partition]
                if not replays:
                    return
                ended = self._sort(consumer.consume(5000, 0.05), replays)
                for key, replay in list(replays.items()):
                    if replay.waiting or key in ended:
                        self._apply(replay, ended.get(key))
                    if replay.done:
                        del replays[key]
                        if not any(other.unit is replay.unit for other in replays.values()):
                            self._hand_over(replay.unit, ranges)
        finally:
            consumer.close()

    def _sort(self, messages: list[Message], replays: Mapping[tuple[str, int], Replay]) -> dict[tuple[str, int], int]:
        """Queue records with their replay; return the end-of-partition offsets."""
        ended: dict[tuple[str, int], int] = {}
        for message in messages:
            topic, partition, error = message.topic(), message.partition(), message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                assert topic is not None
                assert partition is not None
                replay = replays.get((topic, partition))
                offset = message.offset()
                if replay is None:
                    continue
                if error is None:
                    replay.waiting.append(message)
                elif offset is not None:
                    ended[topic, partition] = offset
            elif not error.retriable() and error.code() not in PASSING:
                raise Crash(f"reading changelog {topic}[{partition}]: {error}")
        return ended

    def _apply(self, replay: Replay, ended_at: int | None) -> None:
        """Write what arrived, with the position it brings the unit to."""
        unit = replay.unit
        records, replay.waiting = replay.waiting, []
        with unit.lock:
            if unit.dead:
                return
            state = unit.store.state
            assert state is not None
            before = replay.position
            if records:
                last = records[-1].offset()
                assert last is not None
                replay.position = max(replay.position, last + 1)
            if ended_at is not None:
                replay.position = max(replay.position, ended_at)
            prefix = next(t.prefix for t in unit.tables if t.changelog == replay.topic)
            rows, marks = split_records(prefix, records)
            unit.store.load(
                rows,
                StoreState(
                    complete_at=state.complete_at,
                    changelogs=state.changelogs
                    | {replay.topic: Position(state.changelogs[replay.topic].topic_id, replay.position)},
                    sources=newest_marks(state.sources, marks),
                ),
            )
        self._records[unit.partition] = self._records.get(unit.partition, 0) + len(records)
        self._progress.advance(min(replay.position, replay.end) - min(before, replay.end))
        self._config.failpoint("restoring")

    def _hand_over(self, unit: Unit, ranges: Ranges) -> None:
        former = self._former_marks(unit)
        with unit.lock:
            if unit.dead:
                return
            state = unit.store.state
            assert state is not None
            state = replace(state, complete_at=self._config.now(), sources=newest_marks(state.sources, former))
            check_changelogs(
                unit.partition,
                state.sources.values(),
                unit.changelog_ids(state),
                trust=self._config.trust_group_offsets,
            )
            unit.store.load((), state)
            for topic in unit.sources:
                unit.start_at[topic] = resume_offset(
                    topic,
                    unit.partition,
                    committed=unit.committed[topic],
                    mark=state.sources.get(topic),
                    log=ranges[topic, unit.partition],
                    partitions=self._facts[topic].partitions,
                    trust_group=self._config.trust_group_offsets,
                )
            unit.applied = dict(unit.start_at)
        unit.record_start()
        records = self._records.get(unit.partition, 0)
        seconds = time.monotonic() - self._began
        log.info("unit %s: restored, %s records in %.2f s", unit.partition, records, seconds)
        self._config.metrics.restored(unit.partition, records, seconds)
        self._on_restored(unit)

    def _former_marks(self, unit: Unit) -> dict[str, SourceMark]:
        """Return marks of changelogs that were not replayed, where those that were do not say what the group says.

        None of a source that was recreated since: nothing but what is replayed belongs to that one.
        """
        with unit.lock:
            if unit.dead:
                return {}
            state = unit.store.state
            assert state is not None
            marks = state.sources
        if all(topic in marks and marks[topic].offset == unit.committed[topic] for topic in unit.sources):
            return {}
        found = self._former.of(unit.partition)
        return {topic: mark for topic, mark in found.items() if unit.sources.get(topic) == mark.topic_id}


def split_records(prefix: bytes, records: Iterable[Message]) -> tuple[Rows, dict[str, SourceMark]]:
    """Tell rows of a table from source marks. Raises Crash on a record that is neither."""
    rows: list[tuple[bytes, bytes | None]] = []
    marks: dict[str, SourceMark] = {}
    for record in records:
        key, value = key_of(record), record.value()
        topic = source_of(key)
        if topic is None:
            rows.append((prefix + key, value))
        elif value is not None:
            marks[topic] = SourceMark.decode(value)
    return rows, marks
