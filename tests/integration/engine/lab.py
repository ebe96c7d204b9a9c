"""One group's units against real Kafka, without Faust and without a consumer: restore, commit, look inside."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka.admin import AdminClient, NewTopic

from streams.engine import EngineConfig, ensure_changelogs
from streams.engine.batch import Batch, TableSpec
from streams.engine.group import Group
from streams.engine.unit import Unit


class _Owner:
    def started(self, batch: Batch) -> bool:
        return True

    def finished(self, batch: Batch) -> None: ...


class Lab:
    """Topics of a small app with one source, one table and one output. A context manager per "process".

    ``tables`` may get more before they are made."""

    def __init__(self, bootstrap: str, prefix: str, folder: Path, *, partitions: int = 2) -> None:
        self.prefix = prefix
        self.partitions = partitions
        self.source, self.out = f"{prefix}-source", f"{prefix}-out"
        self.bootstrap = bootstrap
        self.folder = folder
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.table = TableSpec.of(prefix, "rows")
        self.tables = [self.table]

    def config(self, **changes: Any) -> EngineConfig:
        settings: dict[str, Any] = {"bootstrap": self.bootstrap, "group": self.prefix, "state_dir": self.folder}
        return EngineConfig(**(settings | changes))

    def create(self, *topics: str, partitions: int | None = None, settings: Mapping[str, str] | None = None) -> None:
        count = partitions or self.partitions
        made = [NewTopic(name, count, 1, config=dict(settings or {})) for name in topics]
        for future in self.admin.create_topics(made).values():
            future.result(30)
        self.wait_visible(topics, count)

    def wait_visible(self, topics: Iterable[str], partitions: int) -> None:
        """A change of topics is acknowledged by the controller before the broker's metadata has it."""
        deadline = time.monotonic() + 30
        names = list(topics)
        while True:
            known = self.admin.list_topics(timeout=30).topics
            if all(name in known and len(known[name].partitions) == partitions for name in names):
                return
            assert time.monotonic() < deadline, names
            time.sleep(0.05)

    def create_all(self) -> None:
        self.create(self.source, self.out)
        ensure_changelogs(self.config(), [table.changelog for table in self.tables], partitions=self.partitions)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(30)

    def create_again(self, topic: str, settings: Mapping[str, str] | None = None) -> None:
        """Delete a topic and create it. Deletion is asynchronous in the broker: the name is free a moment later."""
        self.delete(topic)
        deadline = time.monotonic() + 30
        while True:
            try:
                return self.create(topic, settings=settings)
            except KafkaException:
                assert time.monotonic() < deadline
                time.sleep(0.1)

    def worker(self, **changes: Any) -> Worker:
        return Worker(self, self.config(**changes))


class Worker:
    """The units of both partitions, fenced and restored inside ``with``."""

    def __init__(self, lab: Lab, config: EngineConfig) -> None:
        self.lab = lab
        self.config = config
        self.pool = ThreadPoolExecutor(4)
        self.group = Group(config, [lab.source], lab.tables, [lab.out], self.pool)
        self.metadata = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": lab.prefix})
        self.restored: list[int] = []

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.group.release(wait=True)
        self.pool.shutdown()
        self.metadata.close()

    def restore(self, committed: dict[int, int] | None = None) -> dict[int, Unit]:
        """Check, fence, restore; ``committed`` are the group's offsets, none when left out."""
        self.group.check()
        assigned = {partition: [self.lab.source] for partition in range(self.lab.partitions)}
        units = self.group.create_units(assigned, self.metadata.consumer_group_metadata())
        self.group.units = units
        self.group.fence(units)
        for partition, offset in (committed or {}).items():
            units[partition].committed[self.lab.source] = offset
        self.group.restore(units, lambda unit: self.restored.append(unit.partition))
        return units

    def commit(self, partition: int, offset: int, rows: dict[bytes, bytes | None]) -> None:
        """Commit one batch of the record at ``offset`` that writes ``rows``."""
        unit = self.group.units[partition]
        record = Message(topic=self.lab.source, partition=partition, offset=offset, key=b"k", value=b"v")
        batch = Batch(
            config=self.config, rows=unit.store, owner=_Owner(), topic=self.lab.source,
            topic_id=unit.sources[self.lab.source], partition=partition, records=[record],
        )  # fmt: skip
        for key, value in rows.items():
            batch.overlay(self.lab.table).set(key, value)
        batch.send(self.lab.out, b"%d" % offset, b"k", partition, record=record)
        unit.commit(batch)

    def rows(self, partition: int) -> dict[bytes, bytes]:
        return dict(self.group.units[partition].store.table(self.lab.table.prefix).scan(b""))
