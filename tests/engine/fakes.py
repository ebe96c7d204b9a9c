"""Hand-written stand-ins for Kafka, as small as the unit tests need them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from streams.engine import EngineConfig, Output, SourcePosition
from streams.engine.batch import Batch, TableSpec
from streams.engine.rows import TableRows
from streams.engine.store import Position, StoreState
from streams.engine.unit import Unit, WaitDecided

GROUP = "g"
TOPIC_ID = "id-of-source"
CHANGELOG_ID = "id-of-changelog"


def config(folder: Path, **changes: Any) -> EngineConfig:
    settings: dict[str, Any] = {"bootstrap": "127.0.0.1:1", "group": GROUP, "state_dir": folder}
    return EngineConfig(**(settings | changes))


def record(
    offset: int, key: bytes | None = b"k", value: bytes | None = b"v", topic: str = "source", partition: int = 0
) -> Message:
    return Message(topic=topic, partition=partition, offset=offset, key=key, value=value)


def kafka_error(
    code: int = KafkaError._FAIL, *, fatal: bool = False, retriable: bool = False, abort: bool = False
) -> KafkaException:
    return KafkaException(KafkaError(code, "made up", fatal, retriable, abort))


class Rows:
    """Tables over a dictionary of stored rows."""

    def __init__(self, rows: dict[bytes, bytes] | None = None) -> None:
        self.rows = dict(rows or {})
        self.many: list[list[bytes]] = []
        self.tables: dict[bytes, TableRows] = {}

    def table(self, prefix: bytes) -> TableRows:
        return self.tables.setdefault(prefix, TableRows(self, prefix))

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        self.many.append(keys)
        return [self.rows.get(key) for key in keys]

    def scan(self, prefix: bytes, after: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        begun = (row for row in self.rows.items() if after is None or row[0] > after)
        return iter(sorted(row for row in begun if row[0].startswith(prefix)))

    def flush(self) -> None:
        for table in self.tables.values():
            for key, value in table.take_dirty():
                if value is None:
                    self.rows.pop(key, None)
                else:
                    self.rows[key] = value

    def settle(self) -> None:
        pass


class Owner:
    """Hears what happens to a batch."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def started(self, batch: Batch) -> bool:
        self.heard.append("started")
        return True

    def finished(self, batch: Batch) -> None:
        self.heard.append("finished")


class Letters:
    def make(self, record: Message, error: Exception, attempt: int, position: SourcePosition) -> Output:
        return Output("dead", record.value(), str(position).encode(), headers=(("error", str(error).encode()),))


class FakeProducer:
    """A broker's view of one transactional producer: what is committed, in order; errors on demand."""

    def __init__(self, log: list[str] | None = None) -> None:
        self.log = log if log is not None else []
        self.committed: list[tuple[str, bytes | None, bytes | None]] = []
        self.offsets: list[TopicPartition] = []
        self.errors: dict[str, list[BaseException]] = {}
        #: Of the last record produced to each topic.
        self.headers: dict[str, Any] = {}
        self._open: list[tuple[str, bytes | None, bytes | None]] = []
        self._sent: list[TopicPartition] = []
        self._end = 0
        self._reports: list[tuple[Any, Message]] = []

    def _step(self, name: str) -> None:
        self.log.append(name)
        errors = self.errors.get(name)
        if errors:
            raise errors.pop(0)

    def init_transactions(self, timeout: float = -1) -> None:
        self._step("init_transactions")

    def begin_transaction(self) -> None:
        self._step("begin")
        self._open, self._sent = [], []

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
        self._step(f"produce {topic}")
        self.headers[topic] = headers
        self._open.append((topic, key, value))
        if callback is not None:
            self._reports.append((callback, Message(topic=topic, partition=partition, offset=self._end)))
        self._end += 1

    def poll(self, timeout: float = -1) -> int:
        self._step("poll")
        return 0

    def flush(self, timeout: float = -1) -> int:
        self._step("flush")
        reports, self._reports = self._reports, []
        for callback, message in reports:
            callback(None, message)
        return 0

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: Any, timeout: float = -1
    ) -> None:
        self._step("offsets")
        self._sent = positions

    def commit_transaction(self, timeout: float = -1) -> None:
        self._step("commit")
        self.committed += self._open
        self.offsets += self._sent

    def abort_transaction(self, timeout: float = -1) -> None:
        self._step("abort")
        self._open, self._sent, self._reports = [], [], []

    def close(self) -> None:
        self._step("close")


TABLE = TableSpec.of(GROUP, "table")


def all_decided(*_: object) -> None:
    """What a unit wrote is decided at once."""


def restored_unit(settings: EngineConfig, producer: FakeProducer, wait_decided: WaitDecided = all_decided) -> Unit:
    """A fenced unit whose (empty) store is open and complete."""
    unit = Unit(settings, 0, {"source": TOPIC_ID}, 1, [TABLE], "metadata", wait_decided, lambda *_: producer)
    unit.fence()
    store = unit.open_store()
    if store.state is None:
        store.load((), StoreState(settings.now(), {TABLE.changelog: Position(CHANGELOG_ID, 0)}, {}))
    unit.restored = unit.ready = True
    return unit


def make_batch(
    settings: EngineConfig, records: Sequence[Message], rows: Any = None, owner: Owner | None = None, attempt: int = 1
) -> Batch:
    return Batch(
        config=settings, rows=rows or Rows(), owner=owner or Owner(), topic="source", topic_id=TOPIC_ID,
        partition=0, records=records, attempt=attempt,
    )  # fmt: skip
