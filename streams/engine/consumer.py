"""The poll thread: fetch, buffer, and own every change of assignment.

All calls on the Consumer happen here. confluent-kafka serialises calls per handle with a lock that
sleeps, so ``consumer_group_metadata``, ``committed``, ``pause`` or ``seek`` from another thread would
starve behind a poll loop.

Assignment, in this order: close this worker's older units, take the transactional ids, only then read
the committed offsets; a unit is assigned, where it stands, when its state is restored.
Revoke: finish or take back, close, return. Lost: mark dead, close in the background, never wait.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from .arrivals import by_place
from .backpressure import is_full, should_pause
from .config import EngineConfig
from .errors import Crash, Disagreement, Refused
from .group import Group
from .resume import ACCEPT_LOSS
from .rights import denied
from .unit import Unit

log = logging.getLogger(__name__)

#: Most records moved out of librdkafka by one call.
FETCH = 4_000
LAG_EVERY = 5.0
#: One question for the committed offsets, in seconds; the operation timeout bounds them all.
OFFSETS_ATTEMPT = 10.0
#: A full buffer that no record leaves for so long (s) is stuck. Longer than an agent takes for a batch.
STUCK_AFTER = 0.5


class Host(Protocol):
    """The Faust side, called from the poll thread."""

    def assigned(self, partitions: list[tuple[str, int]]) -> None:
        """Return when agents may receive these."""

    def revoked(self, partitions: list[tuple[str, int]]) -> None:
        """Return when no batch of theirs is unfinished, or the time for it is over."""

    def wake(self) -> None:
        """There may be something to deliver."""

    def fail(self, error: BaseException) -> None:
        """End the worker."""


class Poller:
    """Runs one group's consumer in its own thread."""

    def __init__(
        self,
        config: EngineConfig,
        group: Group,
        host: Host,
        make_consumer: Callable[[EngineConfig], Consumer] | None = None,
    ) -> None:
        self._config = config
        self._group = group
        self._host = host
        self._make_consumer = make_consumer or _kafka_consumer
        self._quit = threading.Event()
        self._space = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"poll-{config.group}", daemon=True)
        self._lag_at = 0.0
        self._assignments = 0
        self._stuck = False
        #: Topics and partitions that brought records since the last assignment.
        self._begun: set[tuple[str, int]] = set()
        #: What librdkafka was told to pause: topics by partition number.
        self._paused: dict[int, set[str]] = {}
        #: Monotonic time of the last turn of the poll loop, for the watchdog.
        self.beat = time.monotonic()

    def start(self) -> None:
        self.beat = time.monotonic()
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Leave the group, close the units; return whether that was done in time."""
        self._quit.set()
        self._space.set()
        if self._thread.ident is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def space_freed(self) -> None:
        """Records left a buffer. Callable from any thread."""
        self._space.set()

    def _run(self) -> None:
        try:
            self._group.check()
            threading.Thread(target=self._watch, name=f"topics-{self._config.group}", daemon=True).start()
            consumer = self._make_consumer(self._config)
            try:
                consumer.subscribe(
                    list(self._group.needed.sources),
                    on_assign=self._on_assign,
                    on_revoke=self._on_revoke,
                    on_lost=self._on_lost,
                )
                while not self._quit.is_set():
                    self.poll_once(consumer)
            finally:
                consumer.close()
        except BaseException as error:
            self._host.fail(error)
        finally:
            self._group.release(wait=False)

    def _watch(self) -> None:
        try:
            self._group.watch(self._quit.wait)
        except BaseException as error:
            self._host.fail(error)

    def poll_once(self, consumer: Consumer) -> None:
        """One turn: position restored units, respect the limit, fetch."""
        self.beat = time.monotonic()
        waiting = self._start_restored(consumer)
        self._space.clear()
        if not is_full(self._group.weight(), self._config.max_buffered):
            self._stuck = False
        elif not self._stuck:
            if self._space.wait(STUCK_AFTER):
                return
            # Nothing moves, yet the group wants to hear from us, and units with room want their records.
            self._stuck = True
        self._pause_by_size(consumer)
        self._report(consumer)
        first = consumer.poll(0.02 if waiting or self._stuck else self._config.poll_wait)
        if first is None:
            return
        self._sort([first, *consumer.consume(FETCH, 0)])

    def _start_restored(self, consumer: Consumer) -> bool:
        """Consume what is restored, each partition from where its unit stands; return whether units still wait.

        All in one assignment that pauses nothing, and nothing is paused before it brought records: librdkafka starts
        partitions later when the ones before are still stopping, and of a start, a pause and a resume drops what it
        numbered before and serves after another (librdkafka issue 5591; seen here after a broker's death: a worker
        that never read again).
        """
        alive = [unit for unit in self._group.units.values() if not unit.dead]
        # Asked once: the restoring thread may say so of another unit at any moment.
        restored = [unit for unit in alive if unit.restored]
        fresh = [unit for unit in restored if not unit.ready]
        if fresh:
            for unit in fresh:
                for topic, offset in unit.start_at.items():
                    unit.buffer.expect(topic, offset)
            self._resume_all(consumer)
            self._begun.clear()
            consumer.assign(
                [
                    TopicPartition(topic, unit.partition, unit.buffer.expected(topic))
                    for unit in restored
                    for topic in unit.sources
                ]
            )
            for unit in fresh:
                unit.ready = True
            self._host.wake()
        return len(restored) < len(alive)

    def _pause_by_size(self, consumer: Consumer) -> None:
        units = [unit for unit in self._group.units.values() if unit.ready]
        for unit in units:
            number = unit.partition
            paused = number in self._paused
            want = should_pause(unit.buffer.weight, paused, len(units), self._config.max_buffered, stuck=self._stuck)
            if want:
                self._pause(consumer, unit)
            elif paused:
                consumer.resume([TopicPartition(topic, number) for topic in self._paused.pop(number)])

    def _pause(self, consumer: Consumer, unit: Unit) -> None:
        """Pause those topics of a unit that have begun, see :meth:`_start_restored`; the others once they have."""
        number = unit.partition
        topics = {topic for topic in unit.sources if (topic, number) in self._begun} - self._paused.get(number, set())
        if topics:
            consumer.pause([TopicPartition(topic, number) for topic in topics])
            self._paused.setdefault(number, set()).update(topics)

    def _report(self, consumer: Consumer) -> None:
        now = time.monotonic()
        if now - self._lag_at < LAG_EVERY:
            return
        self._lag_at = now
        self._config.metrics.records_buffered(self._group.buffered())
        for unit in self._group.units.values():
            for topic, applied in list(unit.applied.items()):
                marks = consumer.get_watermark_offsets(TopicPartition(topic, unit.partition), cached=True)
                if marks is not None and marks[1] >= 0:
                    self._config.metrics.lag(topic, unit.partition, max(0, marks[1] - applied))

    def _sort(self, messages: list[Message]) -> None:
        """Put fetched records into the buffers of their units."""
        found, errors = by_place(messages)
        for message in errors:
            error = message.error()
            assert error is not None
            self._judge(error, f"{message.topic()}[{message.partition()}]")
        self._begun.update(found)
        for (topic, partition), records in found.items():
            unit = self._group.units.get(partition)
            if unit is not None and unit.ready and not unit.dead:
                unit.buffer.add(topic, records)
        if found:
            self._host.wake()

    def _judge(self, error: KafkaError, where: str) -> None:
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise Refused(
                f"{where}: {error}. The records to read next are gone, by retention or because the topic was "
                f"cut or recreated. Nothing is skipped silently. {ACCEPT_LOSS}"
            )
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise Refused(f"{where}: {error}: a source topic was deleted")
        if (refused := denied(f"consumer: {where}", error, self._config.group)) is not None:
            raise refused
        if error.fatal():
            raise Crash(f"consumer: {where}: {error}")
        log.warning("consumer: %s: %s", where, error)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        assigned: dict[int, list[str]] = {}
        for tp in partitions:
            assigned.setdefault(tp.partition, []).append(tp.topic)
        # Belongs to the generation that begins with this callback and is proof of it in every commit.
        metadata = consumer.consumer_group_metadata() if partitions else None
        self._assignments += 1
        units = self._group.create_units(assigned, metadata)
        self._group.fence(units)
        self._read_committed(consumer, units)
        consumer.assign([])  # nothing is read before it is restored
        self._group.units = units
        self._config.metrics.units_assigned(len(units))
        log.info("assigned partitions %s", sorted(units))
        if units:
            threading.Thread(
                target=self._restore, args=(units,), name=f"restore-{self._config.group}", daemon=True
            ).start()
        self._host.assigned([(tp.topic, tp.partition) for tp in partitions])

    def _read_committed(self, consumer: Consumer, units: dict[int, Unit]) -> None:
        """Read the group's offsets into the units."""
        wanted = [TopicPartition(topic, p) for p, unit in units.items() for topic in unit.sources]
        for tp in self._ask_committed(consumer, wanted) if wanted else []:
            if tp.error is not None:
                what = f"committed offset of {tp.topic}[{tp.partition}]"
                raise denied(what, tp.error, self._config.group) or Crash(f"{what}: {tp.error}")
            units[tp.partition].committed[tp.topic] = tp.offset if tp.offset >= 0 else None

    def _ask_committed(self, consumer: Consumer, wanted: list[TopicPartition]) -> list[TopicPartition]:
        deadline = time.monotonic() + self._config.operation_timeout
        while True:
            try:
                return consumer.committed(wanted, OFFSETS_ATTEMPT)
            except KafkaException as error:
                reason = error.args[0]
                if reason.code() not in _UNTOLD or time.monotonic() > deadline:
                    refused = denied("committed offsets", reason, self._config.group)
                    raise refused or Crash(f"committed offsets: {reason}") from error
                # Their coordinator may be moving; or they are part of a transaction that nobody decides.
                self._group.wait_offsets_decided()

    def _restore(self, units: dict[int, Unit]) -> None:
        def restored(unit: Unit) -> None:
            unit.restored = True

        try:
            self._group.restore(units, restored)
        except BaseException as error:
            if any(not unit.dead for unit in units.values()):
                self._host.fail(self._fresh(error))

    def _fresh(self, error: BaseException) -> BaseException:
        """Return what ends the worker, with an answer that may be old told from one that an operator must see.

        A broker that was killed was seen to tell the group's offsets as they were seconds before, until something
        was written to the group again (its coordinator reads up to the high watermark of the last checkpoint).
        Joining writes, so a worker that has just started asks something fresh: a later one starts again.
        """
        if isinstance(error, Disagreement) and self._assignments > 1:
            return Crash(f"this may be an old answer of a broker that was away; the next start asks again: {error}")
        return error

    def _resume_all(self, consumer: Consumer) -> None:
        """librdkafka keeps an application's pause over assignments (the Java client drops it)."""
        if self._paused:
            consumer.resume([TopicPartition(topic, p) for p, topics in self._paused.items() for topic in topics])
            self._paused.clear()

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._resume_all(consumer)
        if self._group.units:
            log.info("giving away partitions %s", sorted(self._group.units))
            self._host.revoked([(tp.topic, tp.partition) for tp in partitions])
            self._config.failpoint("revoked_midway")
        self._group.release(wait=True)
        self._config.metrics.units_assigned(0)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """The broker gave the partitions to others already: stop touching anything, wait for nothing."""
        self._resume_all(consumer)
        log.warning("lost partitions %s", sorted(self._group.units))
        self._group.release(wait=False)
        self._config.metrics.units_assigned(0)
        self._host.revoked([(tp.topic, tp.partition) for tp in partitions])


#: The coordinator does not answer, or waits for a transaction's end.
_UNTOLD = (KafkaError._TIMED_OUT, KafkaError._WAIT_COORD, KafkaError.UNSTABLE_OFFSET_COMMIT)


def _kafka_consumer(config: EngineConfig) -> Consumer:
    return Consumer(config.source_consumer(), logger=log)
