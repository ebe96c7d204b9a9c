"""The library agent's step without Kafka: a table in memory, a batch that collects what is sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from confluent_kafka import Message

from schemas.ids import SchemaIds
from schemas.library import Command, ItemDetails, ItemObserved, Locator, Observation, ScanListed, ScanStarted
from schemas.placement import partition_of
from schemas.topics import LIBRARY_COMMANDS, LIBRARY_OBSERVED, Topic
from streams.agents import library
from streams.agents.library_shelf import TableShelf
from streams.runtime.contract import Contract

SOURCE = "home"
HOME = partition_of(SOURCE.encode())
LOGGED_AT = 1_796_069_700_130
CONTRACT = Contract(SchemaIds(), registry=None)


class Table:
    """Committed rows, as a table of the engine shows them."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.rows[key] = value

    def __delitem__(self, key: bytes) -> None:
        self.rows.pop(key, None)

    def scan(self, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter(sorted((key, row) for key, row in self.rows.items() if key.startswith(prefix) and key > after))

    def load(self, keys: Iterable[bytes]) -> None:
        """All rows are in memory."""


@dataclass(frozen=True)
class Sent:
    topic: str
    value: bytes
    key: bytes
    partition: int

    @property
    def event(self) -> Any:
        return CONTRACT.decode(self.value)


@dataclass
class Batch:
    """Collects what is sent; a guard that lets a permanent error through to the test."""

    topic_id: str = "topic-id"
    partition: int = HOME
    sent: list[Sent] = field(default_factory=list)

    @contextmanager
    def guard(self, _: Any) -> Iterator[None]:
        yield

    def send(self, topic: str, value: bytes, *, key: bytes, partition: int) -> None:
        self.sent.append(Sent(topic, value, key, partition))


class Desk:
    """Records of both topics, one after the other. What the agent tells itself comes back to it, as in the log."""

    def __init__(self, contract: Contract = CONTRACT, topic_ids: Mapping[str, str] | None = None) -> None:
        self.contract = contract
        self.topic_ids = topic_ids or {
            topic.name: f"id of {topic.name}" for topic in (LIBRARY_OBSERVED, LIBRARY_COMMANDS)
        }
        self.table = Table()
        self.shelf = TableShelf(self.table)
        self.offsets = {LIBRARY_OBSERVED.name: 0, LIBRARY_COMMANDS.name: 0}

    def feed(self, *events: Observation | Command) -> list[Sent]:
        """What came of the events, and of what the agent told itself about them."""
        found: list[Sent] = []
        todo = list(events)
        while todo:
            sent = self.give(record_of(todo.pop(0), self.offsets))
            found += sent
            todo[:0] = [one.event for one in sent if one.topic == LIBRARY_OBSERVED.name]
        return found

    def give(self, record: Message[Any, Any]) -> list[Sent]:
        """What came of one record, as it is."""
        batch = Batch(topic_id=self.topic_ids[str(record.topic())], partition=record.partition() or 0)
        kinds = Command if record.topic() == LIBRARY_COMMANDS.name else Observation
        assert library.process(cast(Any, batch), record, self.shelf, self.contract, kinds)
        return batch.sent


def record_of(event: Observation | Command, offsets: dict[str, int]) -> Message[Any, Any]:
    """The record as it would lie in its topic, at the next offset there."""
    topic = LIBRARY_COMMANDS if isinstance(event, Command) else LIBRARY_OBSERVED
    offset = offsets[topic.name]
    offsets[topic.name] += 1
    return message(topic, event.source_id.encode(), CONTRACT.encode(event), offset)


def message(
    topic: Topic, key: bytes | None, value: bytes | None, offset: int = 0, partition: int | None = None
) -> Message[Any, Any]:
    """A record under ``key``, in the partition that the key says when no other is given."""
    return Message(
        topic=topic.name,
        partition=partition_of(key or b"") if partition is None else partition,
        offset=offset,
        key=key,
        value=value,
        timestamp=(2, LOGGED_AT + offset),
    )


def head(name: str, source_id: str = SOURCE) -> dict[str, Any]:
    return {
        "event_id": name,
        "correlation_id": f"c of {name}",
        "source_id": source_id,
        "occurred_at": LOGGED_AT - 200,
        "received_at": LOGGED_AT - 100,
    }


def started(generation: int, source_id: str = SOURCE) -> ScanStarted:
    return ScanStarted(**head(f"{generation}/start", source_id), generation=generation, requested_by="operator")


def seen(
    generation: int, ordinal: int, number: int, *, new: bool, size: int = 1_000, source_id: str = SOURCE
) -> ItemObserved:
    """File ``number`` of a tree, in a scan. ``new``: with what is in it."""
    return ItemObserved(
        **head(f"{generation}/{ordinal}", source_id),
        generation=generation,
        ordinal=ordinal,
        how="scan",
        locator=Locator(path(number), size, 1_700_000_000_000_000_000 + number, 7, 100 + number),
        details=details(number) if new else None,
    )


def path(number: int) -> bytes:
    return b"Artist %02d/Album %d/%02d Song %d.mp3" % (number // 100, number // 10, number % 10, number)


def details(number: int) -> ItemDetails:
    return ItemDetails(
        version=1_700_000_000_000,
        content_hash=f"{number:032x}",
        media_kind="music",
        item_kind="track",
        title=f"Song {number}",
        duration_ms=180_000 + number,
        year=2001,
        number=number % 10,
        part=1,
        artists=(f"Artist {number // 100}",),
        provider_ids=(),
        collections=(),
    )


def listed(generation: int, observations: int, source_id: str = SOURCE, *, complete: bool = True) -> ScanListed:
    return ScanListed(
        **head(f"{generation}/end", source_id), generation=generation, complete=complete, observations=observations
    )


def scan(generation: int, numbers: Iterable[int], *, new: bool) -> list[Observation]:
    """All records of a scan that saw these files."""
    there = list(numbers)
    items = [seen(generation, ordinal, number, new=new) for ordinal, number in enumerate(there)]
    return [started(generation), *items, listed(generation, len(there))]
