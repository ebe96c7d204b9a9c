"""The state of one consumer group in this process: topics, units, and who owns what.

No Faust here and no module globals, so that several groups can live in one process. The poll thread
(:mod:`.consumer`) changes ``units``; the event loop (:mod:`.delivery`) reads it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor

from .batch import ANY_PARTITION, TableSpec
from .changelog import POSITIONS
from .config import EngineConfig
from .errors import Crash, Hung, Refused
from .hanging import OFFSETS_TOPIC, offsets_place, wait_places_decided
from .logs import Logs, TopicFacts
from .restore import Restorer
from .topics import Needed, check_topics, check_unchanged
from .transaction import GroupMetadata, ProducerFactory, kafka_producer
from .unit import Unit

log = logging.getLogger(__name__)

#: Between two looks at the topics, in seconds.
TOPICS_EVERY = 15.0
#: Before a second look at what seems to have changed.
TOPICS_AGAIN = 2.0


class Group:
    """Units of one app in this worker."""

    def __init__(
        self,
        config: EngineConfig,
        sources: Sequence[str],
        tables: Sequence[TableSpec],
        outputs: Sequence[str],
        pool: ThreadPoolExecutor,
        make_producer: ProducerFactory = kafka_producer,
        make_logs: Callable[[EngineConfig], Logs] = Logs,
        everywhere: Sequence[str] = (),
    ) -> None:
        """Raises Refused when the app reads nothing or two of its topics are one.

        ``everywhere``: those of ``outputs`` of which a unit writes every partition. A source may be an output as well:
        an agent that goes on with long work by a word to itself.
        """
        if not sources:
            raise Refused("the app has no agent: nothing to consume")
        self.config = config
        self.tables = with_positions(config.group, tables)
        self.needed = Needed(
            tuple(sorted(set(sources))),
            tuple(sorted(table.changelog for table in self.tables)),
            tuple(sorted(set(outputs))),
            tuple(sorted(set(everywhere))),
        )
        if taken := {*self.needed.sources, *self.needed.outputs} & set(self.needed.changelogs):
            raise Refused(f"a topic has two roles: {sorted(taken)}")
        self.units: dict[int, Unit] = {}
        self.pool = pool
        self._make_producer = make_producer
        self._make_logs = make_logs
        self._logs: Logs | None = None
        self._facts: dict[str, TopicFacts] = {}
        self._partitions = 0
        self._closing: dict[int, Future[None]] = {}

    def check(self) -> None:
        """Compare what the app declares with what exists. Raises Refused with what to do."""
        self._logs = self._make_logs(self.config)
        self._facts = self._logs.describe(self.needed.all())
        written = (*self.needed.changelogs, *self.needed.outputs)
        settings = self._logs.settings(name for name in written if name in self._facts)
        self._partitions = check_topics(self.needed, self._facts, settings, self.config)

    def watch(self, wait: Callable[[float], bool]) -> None:
        """Look at the topics now and then; ``wait`` takes seconds and says whether it is over.

        Raises Refused when one is not what it was, seen twice: a broker may be behind for a moment. Nobody else would
        tell: to a consumer a deleted topic is one without partitions.
        """
        assert self._logs is not None
        pause = TOPICS_EVERY
        while not wait(pause):
            try:
                now = self._logs.describe(self.needed.all())
            except Crash as error:
                log.warning("the topics cannot be looked at: %s", error)
                continue
            try:
                check_unchanged(self.needed, self._facts, now)
            except Refused:
                if pause != TOPICS_EVERY:
                    raise
                pause = TOPICS_AGAIN
            else:
                pause = TOPICS_EVERY

    def create_units(self, assigned: Mapping[int, Sequence[str]], metadata: GroupMetadata) -> dict[int, Unit]:
        """Make a unit per partition number. Raises Refused when its topics are not assigned together, or have changed;
        Crash when that cannot be asked."""
        for partition, topics in assigned.items():
            if partition >= self._partitions:
                raise Refused(
                    f"partition {partition} appeared, the app started with {self._partitions}: a source topic "
                    "was grown, so keys have moved. Replay into new topics under a new group."
                )
            if sorted(topics) != list(self.needed.sources):
                if self._logs is not None:
                    # Of a topic that has grown the members get other numbers than of the rest.
                    check_unchanged(self.needed, self._facts, self._logs.describe(self.needed.all()))
                raise Refused(
                    f"partition {partition}: assigned {sorted(topics)} of {list(self.needed.sources)}: the "
                    "topics of an app must be assigned together. Another member of this group subscribes to "
                    "other topics or uses another assignor."
                )
        sources = {topic: self._facts[topic].topic_id for topic in self.needed.sources}
        share = self.config.cache_bytes // max(1, len(assigned))
        return {
            p: Unit(
                self.config, p, sources, self._partitions, self.tables, metadata,
                self.wait_written_decided, self._make_producer, share,
            )
            for p in assigned
        }  # fmt: skip

    def fence(self, units: Mapping[int, Unit]) -> None:
        """Take all transactional ids, after this worker's older units of the same numbers are closed."""
        for partition in units:
            self._wait_closed(partition, self.config.operation_timeout)
        for future in [self.pool.submit(unit.fence) for unit in units.values()]:
            future.result()

    def wait_offsets_decided(self) -> None:
        """Return when the group's partition of __consumer_offsets holds nothing undecided.

        Brokers do not tell offsets that a transaction is about to change. Raises Refused when it hangs.
        """
        assert self._logs is not None
        facts = self._logs.describe([OFFSETS_TOPIC])
        wait_places_decided(self.config, self._logs, facts, self._offsets(facts), given_up=lambda: False)

    def wait_written_decided(
        self, partition: int, outputs: AbstractSet[tuple[str, int]], given_up: Callable[[], bool]
    ) -> None:
        """Return when what the unit of ``partition`` wrote is decided: in ``outputs``, in its own partition of the
        declared ones (in all of those it writes everywhere), in its changelogs and among the group's offsets.

        ANY_PARTITION in ``outputs``: the producer chose. Raises Refused when something hangs, Closed when told to give
        up, Crash when brokers do not answer. Callable from any thread.
        """
        assert self._logs is not None
        logs = self._logs
        facts = self._facts | logs.describe(topic for topic, _ in outputs)
        try:
            facts |= logs.describe([OFFSETS_TOPIC])
        except Refused as error:
            log.warning("the group's offsets cannot be looked at, outputs and changelogs are: %s", error)
        written = self.needed.written(partition, self._partitions)
        for topic, chosen in outputs:
            if topic in facts:  # otherwise it was deleted, and there is nothing to be decided
                written |= {(topic, p) for p in range(facts[topic].partitions) if chosen in (p, ANY_PARTITION)}
        wait_places_decided(self.config, logs, facts, written | self._offsets(facts), given_up)

    def _offsets(self, facts: Mapping[str, TopicFacts]) -> set[tuple[str, int]]:
        """Where the group's offsets are, nowhere as long as the cluster has kept none."""
        if OFFSETS_TOPIC not in facts:
            return set()
        return {offsets_place(self.config.group, facts[OFFSETS_TOPIC].partitions)}

    def restore(self, units: Mapping[int, Unit], on_restored: Callable[[Unit], None]) -> None:
        """Bring local state up to date; see :class:`Restorer`."""
        assert self._logs is not None
        Restorer(self.config, self._logs, self.needed, self._facts, on_restored).run(units.values())

    def release(self, *, wait: bool) -> None:
        """Give all units away. ``wait``: return when they are closed; a lost unit is not waited for."""
        units, self.units = self.units, {}
        for unit in units.values():
            unit.dead = True
        for partition, unit in units.items():
            self._closing[partition] = self.pool.submit(unit.close, self.config.quiesce_timeout)
        if wait:
            for partition in units:
                self._wait_closed(partition, self.config.quiesce_timeout + self.config.operation_timeout)

    def _wait_closed(self, partition: int, timeout: float) -> None:
        """Return when the last unit of this number that was given away is closed. Raises Hung."""
        closing = self._closing.pop(partition, None)
        if closing is not None:
            try:
                closing.result(timeout)
            except TimeoutError:
                raise Hung(f"unit {partition}, given away before, does not end in {timeout:g} s") from None

    def buffered(self) -> int:
        """Records fetched and not delivered."""
        return sum(unit.buffer.size for unit in list(self.units.values()))

    def weight(self) -> int:
        """What they count against the limit."""
        return sum(unit.buffer.weight for unit in list(self.units.values()))


def with_positions(group: str, tables: Sequence[TableSpec]) -> tuple[TableSpec, ...]:
    """Return the tables; an app without any gets one that holds only its source offsets."""
    return tuple(tables) if tables else (TableSpec.of(group, POSITIONS),)
