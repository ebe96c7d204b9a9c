"""A projection with its own topic and database on the shared services, and the questions tests ask of it."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from psycopg import sql
from psycopg.rows import dict_row
from pydantic import SecretStr

from projections.digest import Digest, digests
from projections.models.playback import PlaybackProjection
from projections.runner import Runner
from schemas.events import CacheInvalidated, DeadLetter, PlaybackDecided
from schemas.ids import SchemaIds
from schemas.topics import CACHE_INVALIDATED, DEAD_LETTERS, PLAYBACK_DECIDED, Topic
from streams.local import PostgresAddress
from streams.runtime.contract import Contract
from streams.runtime.errors import PlayheadError
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.kafka import apply_topics
from streams.runtime.settings import KafkaSettings, PlaybackSettings, PostgresSettings, Role, Settings
from tests.kafka import answered, delete_records, watermarks
from tests.projections.decisions import PRIMARY_KEYS, Rows, key_of, partition_for

PASSWORDS: dict[Role, str] = {
    "owner": "test-owner",
    "projector": "test-projector",
    "relay": "test-relay",
    "reader": "test-reader",
    "door": "test-door",
    "worker": "test-worker",
}
"""Roles belong to the whole cluster, so all tests of a run give them the same passwords."""


def settings_for(bootstrap: str, address: PostgresAddress, database: str, **playback: Any) -> Settings:
    return Settings(
        kafka=KafkaSettings(bootstrap=bootstrap),
        postgres=PostgresSettings(
            host=address.host,
            port=address.port,
            database=database,
            sslmode="disable",
            **{f"{role}_password": SecretStr(password) for role, password in PASSWORDS.items()},
        ),
        playback=PlaybackSettings(session_timeout_s=6.0, **playback),
    )


def projection_of(topic: Topic) -> PlaybackProjection:
    """The playback projection, reading ``topic``."""

    class OfTopic(PlaybackProjection):
        pass

    OfTopic.topic = topic
    return OfTopic()


@dataclass
class World:
    settings: Settings
    topic: Topic
    superuser: str

    def __post_init__(self) -> None:
        self.lost: list[str] = []
        self.contract = Contract(SchemaIds(), registry=None)
        self.producer = Producer(
            {
                **self.settings.kafka.client(),
                "enable.idempotence": True,
                # As in streams.runtime.outlet: a new partition could lose acknowledged records.
                "max.in.flight.requests.per.connection": 1,
                "linger.ms": 2,
                "message.max.bytes": 2_000_000,
                # A topic's limit holds for whole batches.
                "batch.size": 100_000,
            },
            logger=logging.getLogger("librdkafka.test"),
        )

    # --- the log

    def create_topic(self, partitions: int | None = None) -> None:
        count = partitions or self.topic.partitions
        apply_topics(self.settings.kafka, [replace(self.topic, partitions=count)])

        def known() -> bool:
            found = self.producer.list_topics(self.topic.name, timeout=10).topics[self.topic.name].partitions
            return len(found) == count and all(partition.leader >= 0 for partition in found.values())

        # Until then the producer fails records of partitions it has not heard of.
        eventually(known, "every partition has a leader the producer knows")

    def delete_topic(self) -> None:
        admin = AdminClient(self.settings.kafka.client())
        admin.delete_topics([self.topic.name])[self.topic.name].result(20)

        def gone() -> bool:
            return self.topic.name not in admin.list_topics(timeout=5).topics

        eventually(gone, "the topic is gone")

    def cut_head(self, before: int) -> None:
        """Delete every partition's records before this offset, as far as there are any."""
        admin = AdminClient(self.settings.kafka.client())
        consumer = Consumer({**self.settings.kafka.client(), "group.id": "watermarks"})
        cuts = []
        for partition in range(self.topic.partitions):
            _, end = watermarks(consumer, self.topic.name, partition)
            cuts.append(TopicPartition(self.topic.name, partition, min(before, end)))
        consumer.close()
        delete_records(admin, cuts)

    def produce(self, events: Iterable[PlaybackDecided]) -> None:
        for event in events:
            self.put(key_of(event), self.contract.encode(event), partition_for(event), flush=False)
        self._flush()

    def put(self, key: bytes | None, value: bytes | None, partition: int, *, flush: bool = True) -> None:
        while True:
            try:
                self.producer.produce(
                    self.topic.name, key=key, value=value, partition=partition, on_delivery=self._delivered
                )
                break
            except BufferError:
                self.producer.poll(0.1)
        if flush:
            self._flush()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None or message.offset() is None:
            self.lost.append(error.name() if error else "no offset")

    def _flush(self) -> None:
        assert self.producer.flush(60) == 0
        assert not self.lost, Counter(self.lost)

    def dead_letters(self) -> list[DeadLetter]:
        """Those of this world's topic."""
        found = [self.contract.decode(m.value() or b"") for m in read_all(self.settings.kafka, DEAD_LETTERS.name)]
        return [letter for letter in found if isinstance(letter, DeadLetter) and letter.topic == self.topic.name]

    def invalidations(self, users: Iterable[str]) -> list[CacheInvalidated]:
        """Those about these people, in the order of each partition. Others' keys, of other tests, may hold anything."""
        wanted = set(users)
        found = [
            self.contract.decode(message.value() or b"")
            for message in read_all(self.settings.kafka, CACHE_INVALIDATED.name)
            if wanted.intersection((message.key() or b"").decode().split(":")[1:2])
        ]
        return [one for one in found if isinstance(one, CacheInvalidated)]

    # --- running

    def runner(self, *, failpoint: Failpoint = disarmed, group: str | None = None) -> Runner[Any]:
        return Runner(
            projection_of(self.topic),
            self.settings,
            self.contract,
            failpoint=failpoint,
            group=group or self.topic.name,
        )

    @contextmanager
    def running(self, runner: Runner[Any] | None = None) -> Iterator[Running]:
        """A runner in a thread, stopped at the end; what ended it is raised unless the test took it."""
        running = Running(runner or self.runner())
        try:
            yield running
        finally:
            running.stop.set()
            running.thread.join(30)
            if running.error is not None:
                raise running.error

    def project(self, count: int) -> None:
        """Run until ``count`` records of the log are applied."""
        with self.running() as running:
            eventually(lambda: not running.thread.is_alive() or self.applied() >= count, f"{count} records are applied")

    def wait_applied(self, count: int, timeout_s: float = 30.0) -> None:
        eventually(lambda: self.applied() >= count, f"{count} records are applied", timeout_s)

    # --- the database

    def query(self, query: str, *parameters: Any, role: Role | None = None) -> list[tuple[Any, ...]]:
        """As superuser, or as ``role``."""
        with self.connect(role) as connection:
            cursor = connection.execute(query.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def connect(self, role: Role | None = None) -> psycopg.Connection[Any]:
        if role is None:
            return psycopg.connect(self.superuser)
        return psycopg.connect(**self.settings.postgres.conninfo(role))

    def applied(self) -> int:
        """Records the projection has passed, all partitions together."""
        return int(self.query("SELECT coalesce(sum(next_offset), 0) FROM model.offsets")[0][0])

    def digests(self) -> dict[str, Digest]:
        with self.connect() as connection:
            return digests(connection)

    def rows(self) -> Rows:
        """Every table as ``tests.projections.decisions.fold`` makes them."""
        found: Rows = {}
        with self.connect() as connection:
            for table, key in PRIMARY_KEYS.items():
                cursor = connection.cursor(row_factory=dict_row)
                cursor.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier("model", table)))
                found[table] = {tuple(row[name] for name in key): row for row in cursor.fetchall()}
        return found


class Running:
    def __init__(self, runner: Runner[Any]) -> None:
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self._runner = runner
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._runner.run(self.stop)
        except BaseException as exc:
            self.error = exc

    def ended_with(self, kind: type[PlayheadError], timeout_s: float = 30.0) -> str:
        """Wait until the runner ends by itself with this error; its message."""
        self.thread.join(timeout_s)
        assert not self.thread.is_alive(), "the runner goes on"
        error, self.error = self.error, None
        assert isinstance(error, kind), repr(error)
        return str(error)


def expect_rows(actual: Rows, expected: Rows) -> None:
    """Same keys in every table, and every expected column as expected."""
    for table, rows in expected.items():
        assert actual[table].keys() ^ rows.keys() == set(), table
        for key, row in rows.items():
            found = {name: actual[table][key][name] for name in row}
            differs = {name: (found[name], row[name]) for name in row if found[name] != row[name]}
            assert not differs, f"{table} {key}: (found, expected) {differs}"


def eventually(happened: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    """Poll until it happened; AssertionError after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not happened():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)


def read_all(kafka: KafkaSettings, topic: str) -> list[Message]:
    """All committed records of a topic, up to the ends at the time of the call."""
    consumer = Consumer(
        {
            **kafka.client(),
            "group.id": "reader-of-all",
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        },
        logger=logging.getLogger("librdkafka.test"),
    )
    try:
        partitions = answered(lambda: consumer.list_topics(topic, timeout=10)).topics[topic].partitions
        places: dict[int, int] = {}
        starts = []
        for partition in partitions:
            first, end = watermarks(consumer, topic, partition)
            if end > first:
                places[partition] = end
                starts.append(TopicPartition(topic, partition, first))
        consumer.assign(starts)
        messages: list[Message] = []
        while places:
            for message in consumer.consume(500, 1.0):
                error = message.error()
                if error is not None:
                    raise KafkaException(error)
                messages.append(message)
            for position in consumer.position([TopicPartition(topic, partition) for partition in places]):
                if position.offset >= places[position.partition]:
                    del places[position.partition]
        return sorted(messages, key=lambda m: (m.partition() or 0, m.offset() or 0))
    finally:
        consumer.close()


def decided_topic(name: str) -> Topic:
    return replace(PLAYBACK_DECIDED, name=name)


def environment_of(settings: Settings, **more: str) -> Mapping[str, str]:
    """For a child process."""
    return settings.environment() | more
