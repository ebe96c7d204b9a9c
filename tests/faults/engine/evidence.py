"""What is left after a run: logs, changelogs, local stores, offsets; read without the engine's help.

One partition number at a time: inputs, outputs and tables of a number belong together, and a million records need
not be in memory at once.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from rocksdict import AccessType, Options, Rdict

from streams.engine import SourcePosition
from streams.engine.hanging import OFFSETS_TOPIC, offsets_partition
from tests.kafka import ASK_S, answered

SOURCE_MARK = b"\0source\0"
END_S = 60.0
#: Keys of __consumer_offsets with these versions are of offsets, all others of groups and their members.
OFFSET_KEYS = (0, 1)
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class Input(NamedTuple):
    """A record of source ``role`` (a or b)."""

    role: str
    offset: int
    key: bytes
    value: bytes


class Place(NamedTuple):
    """An input by its role and offset; its partition number is known."""

    role: str
    offset: int


class Change(NamedTuple):
    """A record of a changelog; the reserved keys of source positions are left out."""

    offset: int
    key: bytes
    value: bytes | None


class Out(NamedTuple):
    """An output or a dead letter. ``cause`` is None without a usable source position, ``turn`` counts
    the outputs of one cause."""

    offset: int
    key: bytes
    value: bytes
    cause: Place | None
    turn: int


@dataclass(frozen=True)
class Copy:
    """A local store as it lies on the disk: rows by table, how far each changelog is in it, by table, and before
    which input offset all is applied once it has caught up, by role."""

    path: Path
    tables: dict[str, dict[bytes, bytes]]
    positions: dict[str, int]
    marks: dict[str, int]


@dataclass
class Partition:
    """Everything of one partition number. ``committed`` holds the group's offsets by role."""

    number: int
    inputs: dict[str, list[Input]] = field(default_factory=lambda: {"a": [], "b": []})
    ends: dict[str, int] = field(default_factory=dict)
    outputs: list[Out] = field(default_factory=list)
    letters: list[Out] = field(default_factory=list)
    changelogs: dict[str, list[Change]] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)
    committed: dict[str, int] = field(default_factory=dict)


class Committed(NamedTuple):
    """A record of __consumer_offsets: the group's offset of a source partition, None when it was deleted or expired.

    ``at_ms``: when its coordinator wrote it, in ms since the epoch.
    """

    source: tuple[str, int]
    offset: int | None
    at_ms: int


@dataclass(frozen=True)
class Sample:
    """Offsets seen during a run: the group's by (topic, partition); ends of sources and outputs read after them."""

    at: float
    committed: Mapping[tuple[str, int], int]
    ends: Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class Intervention:
    """An operator deleted the group's offsets, or set them, between ``began_ms`` and ``ended_ms`` since the epoch.

    ``repair``: deleted all, because a broker had lost a part of a transaction, so that units may resume before where
    the group was.
    """

    began_ms: int
    ended_ms: int
    repair: bool


@dataclass(frozen=True)
class Topics:
    a: str
    b: str
    out: str
    dead: str
    changelogs: Mapping[str, str]

    def all(self) -> tuple[str, ...]:
        return (self.a, self.b, self.out, self.dead, *self.changelogs.values())


class Reader:
    """Reads whole partition numbers, and what was written of a group's offsets, read committed. A context manager."""

    def __init__(self, bootstrap: str, topics: Topics, states: Iterable[Path] = ()) -> None:
        self._bootstrap = bootstrap
        self._topics = topics
        self._states = tuple(states)
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap, "group.id": "oracle", "isolation.level": "read_committed",
            "enable.partition.eof": True, "enable.auto.commit": False, "fetch.wait.max.ms": 10, "log_level": 0,
        }  # fmt: skip
        self._consumer = Consumer(settings)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def partition(self, number: int, committed: Mapping[str, int]) -> Partition:
        """Read one number to the end of all its topics. Raises AssertionError when an end is not reached."""
        found = Partition(number, committed=dict(committed))
        roles = {self._topics.a: "a", self._topics.b: "b"}
        tables = {topic: table for table, topic in self._topics.changelogs.items()}
        found.changelogs = {table: [] for table in self._topics.changelogs}
        ends: dict[str, int] = {}
        for message in self._records(number, dict.fromkeys(self._topics.all(), 0), ends):
            topic, offset, key, value = message.topic(), message.offset(), message.key(), message.value()
            assert topic is not None
            assert offset is not None
            assert key is not None, f"{topic}[{number}]@{offset} has no key"
            if topic in tables:
                if not key.startswith(SOURCE_MARK):
                    found.changelogs[tables[topic]].append(Change(offset, key, value))
                continue
            assert value is not None, f"{topic}[{number}]@{offset} has no value"
            if topic in roles:
                found.inputs[roles[topic]].append(Input(roles[topic], offset, key, value))
                continue
            cause, index = _cause(message, roles, number)
            (found.outputs if topic == self._topics.out else found.letters).append(
                Out(offset, key, value, cause, index)
            )
        found.ends = {role: ends[topic] for topic, role in roles.items()}
        found.copies = [
            copy
            for state in self._states
            if (state / str(number)).is_dir() and (copy := read_copy(state / str(number), roles, tables)) is not None
        ]
        return found

    def offsets(self, group: str) -> list[Committed]:
        """What was committed of the group's offsets, in the order of their log, to its end as it is now.

        What was aborted is not there: nobody resumes from it. Raises AssertionError when something stays undecided.
        """
        known = answered(lambda: self._consumer.list_topics(OFFSETS_TOPIC, ASK_S)).topics[OFFSETS_TOPIC]
        if not known.partitions:
            return []
        number = offsets_partition(group, len(known.partitions))
        place = TopicPartition(OFFSETS_TOPIC, number)
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        end = answered(lambda: admin.list_offsets({place: _LATEST}, request_timeout=ASK_S)[place].result(ASK_S)).offset
        return [
            written
            for message in self._records(number, {OFFSETS_TOPIC: end}, {})
            if (written := committed_of(message.key(), message.value(), message.timestamp()[1], group)) is not None
        ]

    def _records(self, number: int, least: Mapping[str, int], ends: dict[str, int]) -> Iterator[Message]:
        """Yield the records of the topics in ``least``, put the end of each into ``ends``; none is before its least.

        The end of what is decided may be told first.
        """
        wanted = set(least)
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for topic in sorted(wanted)])
        deadline = time.monotonic() + END_S
        while wanted:
            assert time.monotonic() < deadline, f"{sorted(wanted)}[{number}]: no end in {END_S} s: undecided records"
            for message in self._consumer.consume(5000, 0.05):
                error, topic, offset = message.error(), message.topic(), message.offset()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    assert topic is not None
                    assert offset is not None
                    ends[topic] = offset
                    if offset >= least[topic]:
                        wanted.discard(topic)
        self._consumer.unassign()


def committed_of(key: bytes | None, value: bytes | None, at_ms: int, group: str) -> Committed | None:
    """What a record of __consumer_offsets says of the group's offsets; None when it is of others, or no offset.

    Big-endian. Key: int16 version, group and topic, each a string after its int16 length, int32 partition. Value:
    int16 version, int64 offset, more of no concern here. Source: apache/kafka, group-coordinator,
    LegacyOffsetCommitKey.json and OffsetCommitKey.json, of which ``apiKey`` (0, 1) is the version of the key, and
    OffsetCommitValue.json (versions 0 to 4). Raises struct.error or UnicodeDecodeError for what is neither.
    """
    assert key is not None, "a record of __consumer_offsets has no key"
    if struct.unpack_from(">h", key)[0] not in OFFSET_KEYS:
        return None
    of, at = _string(key, 2)
    topic, at = _string(key, at)
    (partition,) = struct.unpack_from(">i", key, at)
    if of != group:
        return None
    offset = None if value is None else struct.unpack_from(">q", value, 2)[0]
    return Committed((topic, partition), offset, at_ms)


def _string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + length].decode(), at + 2 + length


def _cause(message: Message, roles: Mapping[str, str], number: int) -> tuple[Place | None, int]:
    try:
        position = SourcePosition.from_headers(list(cast("Any", message.headers()) or []))
    except ValueError:
        return None, -1
    if position is None or position.topic not in roles or position.partition != number:
        return None, -1
    return Place(roles[position.topic], position.offset), position.index


def read_copy(path: Path, roles: Mapping[str, str], tables: Mapping[str, str]) -> Copy | None:
    """Read a store that nobody has open. ``roles`` and ``tables`` are by topic.

    None when it holds nothing yet, or was damaged and not opened since.
    """
    from streams.engine.store import STATE_KEY, StoreState

    options: Any = Options(raw_mode=True)
    try:
        database: Any = Rdict(str(path), options, access_type=AccessType.read_only(False))
        try:
            rows: dict[bytes, bytes] = dict(database.items())
        finally:
            database.close()
    except Exception as error:
        # rocksdict raises bare Exception. Whoever had the partition last has a copy that can be read.
        if not str(error).startswith("Corruption"):
            raise
        return None
    raw = rows.pop(STATE_KEY, None)
    if raw is None:
        return None
    state = StoreState.decode(raw)
    found: dict[str, dict[bytes, bytes]] = {}
    for key, value in rows.items():
        table, _, name = key.partition(b"\0")
        found.setdefault(table.decode(), {})[name] = value
    positions = {tables[topic]: position.offset for topic, position in state.changelogs.items()}
    marks = {roles[topic]: mark.offset for topic, mark in state.sources.items() if topic in roles}
    return Copy(path, found, positions, marks)
