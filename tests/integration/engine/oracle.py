"""What must be true after any faults, computed from the source topics alone.

Independent of the worker: it reads the inputs, folds them in plain dictionaries and compares with the
outputs, the changelogs, the dead letters and the local stores.
"""

from __future__ import annotations

import struct
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from rocksdict import AccessType, Options, Rdict

from streams.engine import SourcePosition

OUTPUT = struct.Struct("<BqqI")


def read_all(bootstrap: str, topic: str, partitions: int, *, isolation: str = "read_committed") -> list[Message]:
    """Return every record of a topic, to the end of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "oracle",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[Message] = []
    ended: set[int | None] = set()
    turns = 0
    while len(ended) < partitions:
        turns += 1
        assert turns < 300, f"{topic}: the end is not reached: a transaction hangs"
        for message in consumer.consume(5000, 0.1):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
    return found


class Expected:
    """The fold of both sources."""

    def __init__(self, bootstrap: str, a: str, b: str, partitions: int) -> None:
        self.outputs: dict[tuple[bytes, int], list[bytes]] = defaultdict(list)
        self.tables: dict[str, dict[bytes, tuple[int, int, int]]] = {"progress": {}, "items": {}}
        self.poison = 0
        for message in read_all(bootstrap, a, partitions):
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            self._fold_a(key, value)
        for message in read_all(bootstrap, b, partitions):
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            self._fold_b(key, value)

    def _fold_a(self, key: bytes, value: bytes) -> None:
        rows = self.tables["progress"]
        number = int.from_bytes(value[:8], "little")
        if value[8:9] == b"!":
            self.poison += 1
            return
        last, count, crc = rows.get(key, (-1, 0, 0))
        if number > last:
            rows[key] = (number, count + 1, zlib.crc32(value, crc))
            self.outputs[key, 0].append(OUTPUT.pack(0, *rows[key]))

    def _fold_b(self, key: bytes, value: bytes) -> None:
        rows = self.tables["items"]
        number = int.from_bytes(value[:8], "little")
        if value[8:9] == b"D":
            known = rows.pop(key, None)
            self.outputs[key, 1].append(OUTPUT.pack(1, number, -1 if known else -2, 0))
            return
        _, count, crc = rows.get(key, (-1, 0, 0))
        rows[key] = (number, count + 1, zlib.crc32(value, crc))
        self.outputs[key, 1].append(OUTPUT.pack(1, *rows[key]))

    def rows(self, table: str) -> dict[bytes, bytes]:
        return {key: struct.pack("<qqI", *row) for key, row in self.tables[table].items()}


def violations(
    bootstrap: str, *, a: str, b: str, out: str, dead: str, changelogs: dict[str, str], partitions: int
) -> list[str]:
    """Return everything that is not as it must be; empty when all is."""
    expected = Expected(bootstrap, a, b, partitions)
    problems: list[str] = []
    got: dict[tuple[bytes, int], list[bytes]] = defaultdict(list)
    positions: set[SourcePosition] = set()
    for message in read_all(bootstrap, out, partitions):
        key, value = message.key(), message.value()
        assert key is not None
        assert value is not None
        got[key, value[0]].append(value)
        position = SourcePosition.from_headers(_headers(message))
        if position is None or position in positions:
            problems.append(f"output {key!r}: source position {position} missing or repeated")
        else:
            positions.add(position)
    problems += [
        f"outputs of {at}: {len(got[at])} instead of {len(expected.outputs[at])}, or reordered"
        for at in expected.outputs.keys() | got.keys()
        if expected.outputs[at] != got[at]
    ]
    for table, changelog in changelogs.items():
        rows: dict[bytes, bytes | None] = {}
        for message in read_all(bootstrap, changelog, partitions):
            key = message.key()
            assert key is not None
            if not key.startswith(b"\0source\0"):
                rows[key] = message.value()
        if {key: value for key, value in rows.items() if value is not None} != expected.rows(table):
            problems.append(f"changelog of {table} differs from the fold")
    letters = len(read_all(bootstrap, dead, partitions))
    if letters != expected.poison:
        problems.append(f"{letters} dead letters instead of {expected.poison}")
    return problems


def store_violations(bootstrap: str, states: list[Path], *, a: str, b: str, partitions: int) -> list[str]:
    """Compare the newest local store of each partition with the fold. Workers must have stopped."""
    expected = Expected(bootstrap, a, b, partitions)
    newest: dict[int, tuple[int, dict[bytes, bytes]]] = {}
    for state in states:
        for path in state.glob("[0-9]*"):
            applied, rows = _dump(path)
            if applied >= newest.get(int(path.name), (-1, {}))[0]:
                newest[int(path.name)] = (applied, rows)
    found: dict[bytes, bytes] = {}
    for _, rows in newest.values():
        found |= rows
    wanted = {
        table.encode() + b"\0" + key: row for table in expected.tables for key, row in expected.rows(table).items()
    }
    return [] if found == wanted else [f"local stores differ from the fold: {len(found)} rows, {len(wanted)} wanted"]


def _dump(path: Path) -> tuple[int, dict[bytes, bytes]]:
    from streams.engine.store import STATE_KEY, StoreState

    options: Any = Options(raw_mode=True)
    database: Any = Rdict(str(path), options, access_type=AccessType.read_only(False))
    rows = dict(database.items())
    database.close()
    state = StoreState.decode(rows.pop(STATE_KEY))
    return sum(mark.offset for mark in state.sources.values()), rows


def _headers(message: Message) -> list[tuple[str, object]]:
    return list(cast("Any", message.headers()) or [])
