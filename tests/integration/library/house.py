"""A whole Playhead with a worker in this process, whose calls to the operating system a test may let fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import psycopg
from confluent_kafka import Consumer, Message, TopicPartition

from schemas.ids import SchemaIds
from schemas.library import Command, Observation
from schemas.topics import LIBRARY_CHANGED, LIBRARY_OBSERVED
from streams.cli.admin import door_connection
from streams.effects.wiring import make_worker
from streams.runtime.commands import command_partition, command_record
from streams.runtime.contract import Contract
from streams.runtime.outlet import Outlet
from streams.runtime.publisher import Record
from streams.runtime.tokens import create_token
from tests.faults.world import World, playhead_world
from tests.integration.projections.world import eventually
from tests.kafka import watermarks

TTL_S = 2.0
"""Of every lease here."""


class House:
    """Services, all roles but the worker, and ``working`` beside them when a test wants it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.settings = world.settings
        self.contract = Contract(SchemaIds(), registry=None)
        self._outlet = Outlet(self.settings.kafka)
        self._stop: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        with door_connection(self.settings) as connection:
            token = create_token(connection, None, ["operate"], None, "test")
        self.operator = self.client(token)
        self._database = psycopg.connect(world.superuser, autocommit=True)

    def client(self, token: str) -> httpx.Client:
        return httpx.Client(
            base_url=self.world.playhead.url, headers={"Authorization": f"Bearer {token}"}, timeout=httpx.Timeout(15)
        )

    def query(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        cursor = self._database.execute(query.encode(), values or None)
        return cursor.fetchall() if cursor.description else []

    # The worker of this process.

    def start_worker(self) -> None:
        """Nothing when it is at work."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(self._stop,), daemon=True)
        self._thread.start()

    def stop_worker(self) -> None:
        """What ended it, if anything did before, is raised."""
        if self._stop is not None and self._thread is not None:
            self._stop.set()
            self._thread.join(30)
            assert not self._thread.is_alive()
        self._stop = self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    @contextmanager
    def working(self) -> Iterator[None]:
        self.start_worker()
        try:
            yield
        finally:
            self.stop_worker()

    def _work(self, stop: threading.Event) -> None:
        try:
            with make_worker(self.settings, self.contract, watching=False, ttl_s=TTL_S) as worker:
                worker.run(stop)
        except BaseException as exc:
            self._error = exc

    def wait(self, happened: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
        """Until it happened; what ends a role or the worker is raised."""

        def looked() -> bool:
            self.world.playhead.supervisor.raise_refusal()
            if self._error is not None:
                self.stop_worker()
            return happened()

        eventually(looked, what, timeout_s)

    # The log.

    def give(self, command: Command) -> int:
        """Its offset."""
        [place] = self._outlet.publish([command_record(self.contract, command)])
        return place.offset

    def observe(self, *events: Observation | bytes, source_id: str) -> list[int]:
        """Observations, or other bytes, into the log; their offsets."""
        values = [event if isinstance(event, bytes) else self.contract.encode(event) for event in events]
        place = command_partition(source_id)
        records = [Record(LIBRARY_OBSERVED.name, place, source_id.encode(), value) for value in values]
        return [one.offset for one in self._outlet.publish(records)]

    def changes(self, source_id: str) -> list[Any]:
        """All of library.changed about a source, from the first record."""
        return [self.contract.decode(m.value() or b"") for m in self.records(LIBRARY_CHANGED.name, source_id)]

    def observed(self, source_id: str) -> list[Any]:
        """All of library.observed about a source that can be decoded."""
        return [self.contract.decode(m.value() or b"") for m in self.records(LIBRARY_OBSERVED.name, source_id)]

    def records(self, topic: str, source_id: str) -> list[Message]:
        """Committed records under the source's key, in their order."""
        partition, key = command_partition(source_id), source_id.encode()
        consumer = Consumer(
            {
                **self.settings.kafka.client(),
                "group.id": "library-oracle",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        try:
            first, end = watermarks(consumer, topic, partition)
            place = TopicPartition(topic, partition, first)
            consumer.assign([place])
            found: list[Message] = []
            while first < end:
                message = consumer.poll(0.1)
                if message is not None:
                    assert message.error() is None, message.error()
                    if message.key() == key:
                        found.append(message)
                [position] = consumer.position([place])
                if position.offset >= end:
                    break
            return found
        finally:
            consumer.close()

    def close(self) -> None:
        self.stop_worker()
        self.operator.close()
        self._outlet.close()
        self._database.close()


@contextmanager
def house() -> Iterator[House]:
    with playhead_world(workers=0) as world:
        made = House(world)
        try:
            yield made
        finally:
            made.close()
