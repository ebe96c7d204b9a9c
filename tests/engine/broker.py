"""A broker in memory, as much of one as transactions, fencing and replay need; one partition a topic.

It follows Kafka's rules: a transactional id has an epoch, taking it raises the epoch and aborts what was open; records
of a transaction lie in the log from the moment they are produced and are decided by a marker, which takes an offset;
the last stable offset stops at the first undecided record; group offsets of a transaction count when it commits.

And as brokers do that are restarted: a commit may be decided and answered, and some logs never get its marker. What
hangs there is decided by the next marker of that producer, whatever it is of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, Message, TopicPartition

from streams.engine.logs import TopicFacts
from streams.engine.resume import LogRange

from .fakes import kafka_error

#: Between two records, in ms.
TICK = 300


class Killed(BaseException):
    """The process ended here. Nothing in the engine may catch it."""


class Fate(Enum):
    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


@dataclass
class Entry:
    """A record, or with ``key`` and ``value`` ``None`` a marker."""

    offset: int
    key: bytes | None
    value: bytes | None
    fate: Fate
    marker: bool = False
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    time: int = 0

    def message(self, topic: str) -> Message:
        return Message(
            topic=topic, partition=0, offset=self.offset, key=self.key, value=self.value, headers=[*self.headers],
            timestamp=(TIMESTAMP_CREATE_TIME, self.time),
        )  # fmt: skip


@dataclass
class Log:
    entries: list[Entry] = field(default_factory=list)
    end: int = 0
    #: How often a topic of this name was made before.
    made: int = 0

    def topic_id(self, name: str) -> str:
        return f"id-of-{name}" + (f"-{self.made}" if self.made else "")

    def append(self, key: bytes | None, value: bytes | None, fate: Fate, *, marker: bool = False) -> Entry:
        entry = Entry(self.end, key, value, fate, marker)
        self.entries.append(entry)
        self.end += 1
        return entry

    @property
    def stable(self) -> int:
        return next((entry.offset for entry in self.entries if entry.fate is Fate.OPEN), self.end)

    def committed(self, start: int = 0) -> list[Entry]:
        """What a read_committed reader sees from ``start``."""
        stable = self.stable
        return [
            entry
            for entry in self.entries
            if start <= entry.offset < stable and entry.fate is Fate.COMMITTED and not entry.marker
        ]

    def compact(self) -> None:
        """Drop what a later committed record of its key replaces; offsets stay, tombstones too."""
        newest = {entry.key: entry.offset for entry in self.committed()}
        self.entries = [
            entry
            for entry in self.entries
            if entry.marker or entry.fate is not Fate.COMMITTED or newest.get(entry.key, -1) <= entry.offset
        ]


@dataclass
class Transaction:
    entries: dict[str, list[Entry]] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """What happens at a call: ``kind`` at the call ``step`` of a producer, or at a failpoint of that name.

    ``torn`` and the logs that never hear of it, as bits in order of their names: a commit that is decided, see above.
    ``abort``, ``fatal``: the error librdkafka would give. ``lost``: the call has its effect and its answer never
    comes; ``unanswered``: neither effect nor answer. ``kill``, ``kill_after``: the process ends before or after it.
    It strikes once, when the step was passed ``skip`` times.
    """

    kind: str
    step: str
    skip: int = 0


class Broker:
    def __init__(self) -> None:
        self.logs: dict[str, Log] = {}
        self.epochs: dict[str, int] = {}
        self.open: dict[str, Transaction] = {}
        #: The group's offsets, which expire, and what they were when last committed.
        self.group: dict[str, int] = {}
        self.processed: dict[str, int] = {}
        #: What hangs, by transactional id and topic.
        self.hung: dict[str, dict[str, list[Entry]]] = {}
        #: Whether a committed transaction may lack a part, until a unit has restored.
        self.harmed = False
        self.time = 0
        self.faults: list[Fault] = []
        self._passed: Counter[tuple[str, str]] = Counter()

    def log(self, topic: str) -> Log:
        return self.logs.setdefault(topic, Log())

    def recreate(self, topic: str) -> None:
        """Delete a topic and create it."""
        self.logs[topic] = Log(made=self.log(topic).made + 1)

    def arm(self, *faults: Fault) -> None:
        """These are to strike, and no others."""
        self.faults = list(faults)
        self._passed.clear()

    def hit(self, kind: str, step: str) -> bool:
        """Whether an armed fault strikes here."""
        passed = self._passed[kind, step]
        self._passed[kind, step] += 1
        fault = Fault(kind, step, passed)
        if fault not in self.faults:
            return False
        self.faults.remove(fault)
        return True

    def failpoint(self, name: str) -> None:
        if self.hit("kill", name):
            raise Killed(name)

    def decide(self, transactional_id: str, fate: Fate, torn: int = 0) -> None:
        transaction = self.open.pop(transactional_id, None)
        if transaction is None:
            return
        hung = self.hung.setdefault(transactional_id, {})
        for bit, (topic, entries) in enumerate(sorted(transaction.entries.items())):
            hung.setdefault(topic, []).extend(entries)
            if torn >> bit & 1:
                self.harmed = True
            else:
                self._mark(topic, hung.pop(topic), fate)
        if fate is Fate.COMMITTED:
            self.group |= transaction.offsets
            self.processed |= transaction.offsets

    @property
    def hung_anywhere(self) -> bool:
        return any(self.hung.values())

    def settle(self) -> None:
        """Commit what hangs, as an operator does who knows that its transaction was."""
        for parts in self.hung.values():
            for topic, entries in parts.items():
                self._mark(topic, entries, Fate.COMMITTED)
        self.hung.clear()

    def _mark(self, topic: str, entries: list[Entry], fate: Fate) -> None:
        for entry in entries:
            entry.fate = fate
        self.log(topic).append(None, None, fate, marker=True)

    def read(self, stretches: Mapping[tuple[str, int], tuple[int, int]], *, undecided: bool) -> Any:
        """What :func:`streams.engine.reading.read_stretches` returns."""
        return {
            (topic, partition): [
                entry.message(topic)
                for entry in self.log(topic).entries
                if start <= entry.offset < end and not entry.marker and (undecided or entry.fate is Fate.COMMITTED)
            ]
            for (topic, partition), (start, end) in stretches.items()
        }


class ModelProducer:
    """A transactional producer of ``broker``, with its error classes and its faults."""

    def __init__(self, broker: Broker, transactional_id: str) -> None:
        self._broker = broker
        self._id = transactional_id
        self._epoch = -1
        self._reports: list[tuple[Any, Message]] = []

    def _call(self, step: str, effect: Callable[[], None]) -> None:
        hit = self._broker.hit
        if hit("kill", step):
            raise Killed(step)
        if hit("abort", step):
            raise kafka_error(abort=True)
        if hit("fatal", step):
            raise kafka_error(fatal=True)
        if hit("unanswered", step):
            raise kafka_error(KafkaError._TIMED_OUT, retriable=True)
        if self._epoch != self._broker.epochs.get(self._id) and step not in ("init", "begin"):
            raise kafka_error(KafkaError._FENCED, fatal=True)
        effect()
        if hit("lost", step):
            raise kafka_error(KafkaError._TIMED_OUT, retriable=True)
        if hit("kill_after", step):
            raise Killed(step)

    def init_transactions(self, timeout: float = -1) -> None:
        def take() -> None:
            self._broker.decide(self._id, Fate.ABORTED)
            self._epoch = self._broker.epochs[self._id] = self._broker.epochs.get(self._id, 0) + 1

        self._call("init", take)

    def begin_transaction(self) -> None:
        self._call("begin", self._reports.clear)

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        def append() -> None:
            transaction = self._broker.open.setdefault(self._id, Transaction())
            entry = self._broker.log(topic).append(key, value, Fate.OPEN)
            entry.headers = list(headers or ())
            self._broker.time += TICK
            entry.time = self._broker.time
            transaction.entries.setdefault(topic, []).append(entry)
            if callback is not None:
                self._reports.append((callback, Message(topic=topic, partition=0, offset=entry.offset)))

        self._call("produce", append)

    def poll(self, timeout: float = -1) -> int:
        return 0

    def flush(self, timeout: float = -1) -> int:
        def report() -> None:
            reports, self._reports = self._reports, []
            for callback, message in reports:
                callback(None, message)

        self._call("flush", report)
        return 0

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: Any, timeout: float = -1
    ) -> None:
        def send() -> None:
            transaction = self._broker.open.setdefault(self._id, Transaction())
            transaction.offsets |= {tp.topic: tp.offset for tp in positions}

        self._call("offsets", send)

    def commit_transaction(self, timeout: float = -1) -> None:
        torn = next((bits for bits in range(1, 8) if self._broker.hit(f"torn {bits}", "commit")), 0)
        self._call("commit", lambda: self._broker.decide(self._id, Fate.COMMITTED, torn))

    def abort_transaction(self, timeout: float = -1) -> None:
        self._call("abort", lambda: self._broker.decide(self._id, Fate.ABORTED))

    def close(self) -> None:
        if self._epoch != self._broker.epochs.get(self._id):
            raise kafka_error(KafkaError._FENCED, fatal=True)


class ModelLogs:
    """What :class:`streams.engine.logs.Logs` asks of the brokers."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self, topics: Iterable[str]) -> dict[str, TopicFacts]:
        return {name: TopicFacts(self._broker.log(name).topic_id(name), 1) for name in topics}

    def names(self) -> list[str]:
        return list(self._broker.logs)

    def settings(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        return {}

    def ranges(
        self, partitions: Iterable[tuple[str, int]], facts: Mapping[str, TopicFacts]
    ) -> dict[tuple[str, int], LogRange]:
        found = {}
        for topic, partition in partitions:
            log = self._broker.log(topic)
            found[topic, partition] = LogRange(log.topic_id(topic), 0, log.end, log.stable)
        return found

    def since(self, partitions: Iterable[tuple[str, int]], timestamp: int) -> dict[tuple[str, int], int | None]:
        return {
            (topic, partition): next(
                (entry.offset for entry in self._broker.log(topic).entries if entry.time >= timestamp), None
            )
            for topic, partition in partitions
        }


class ModelConsumer:
    """Reads changelogs read_committed, a few records a call, and says where a partition ends."""

    def __init__(self, broker: Broker, few: int = 3) -> None:
        self._broker = broker
        self._few = few
        self._at: dict[str, int] = {}

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._at = {tp.topic: tp.offset for tp in partitions}

    def consume(self, most: int, timeout: float) -> list[Message]:
        found: list[Message] = []
        for topic, at in self._at.items():
            log = self._broker.log(topic)
            entries = log.committed(at)[: self._few]
            found += [Message(topic=topic, partition=0, offset=e.offset, key=e.key, value=e.value) for e in entries]
            if entries:
                self._at[topic] = entries[-1].offset + 1
            else:
                ended = KafkaError(KafkaError._PARTITION_EOF, "end")
                found.append(Message(topic=topic, partition=0, offset=log.stable, error=ended))
        return found

    def close(self) -> None:
        pass
