"""Who listened while another model went live was told to begin anew; who was away at that moment was handed what came
since without it, and went on showing the former model's rows. The same of a record that can't be read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from projections.api import change_hub
from projections.api.change_hub import Change, ChangeHub, Listener, Reset
from projections.api.change_ids import Place
from projections.api.changes import Sight, events, wanted
from projections.api.names import Names
from schemas.events import MERGED, WHOLE_MODEL, CacheInvalidated
from schemas.ids import SchemaIds
from schemas.topics import CACHE_INVALIDATED, Topic
from streams.runtime.cache import Cache, Stamp
from streams.runtime.clock import FakeClock
from streams.runtime.contract import Contract
from streams.runtime.invalidations import NEVER
from streams.runtime.settings import KafkaSettings
from streams.runtime.tail import Extents
from streams.runtime.tokens import Principal, Scope
from tests.ingest.fakes import FakeAliases, FakePeople

ANA, FILM = "a" * 32, "f" * 32
CALLER = Principal("t-ana", "home", frozenset({Scope.READ}), ANA)
CONTRACT = Contract(SchemaIds(), registry=None)
PROGRESS = f"progress:{ANA}:{FILM}"
UNREADABLE = b"no event"


def invalidation(key: str, version: int = 0, reason: str = "") -> bytes:
    event = CacheInvalidated(
        event_id="e", correlation_id="c", source_id="home", occurred_at=None, received_at=0, cache_key=key,
        model_epoch=1, log_epoch=1, partition=0, version=version, reason=reason,
    )  # fmt: skip
    return CONTRACT.encode(event)


@dataclass(frozen=True)
class Message:
    at: int
    its_key: str
    its_value: bytes

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return self.its_key.encode()

    def value(self) -> bytes:
        return self.its_value


@dataclass
class Log:
    """cache.invalidated, of which only the first partition holds anything."""

    messages: list[Message] = field(default_factory=list)
    more: threading.Condition = field(default_factory=threading.Condition)

    def append(self, key: str, value: bytes | None = None) -> None:
        with self.more:
            self.messages.append(Message(len(self.messages), key, invalidation(key) if value is None else value))
            self.more.notify_all()

    def places(self, first: int) -> dict[int, int]:
        return dict.fromkeys(range(CACHE_INVALIDATED.partitions), 0) | {0: first}

    def tail(self, kafka: KafkaSettings, topic: Topic) -> FakeTail:
        return FakeTail(self)


class FakeTail:
    """A Tail over the log, and the answer to what it was asked."""

    done = True

    def __init__(self, log: Log) -> None:
        self._log = log
        self.positions: Mapping[int, int] = {}

    def ask(self) -> FakeTail:
        return self

    def answer(self) -> Extents:
        return Extents("topic", self._log.places(0), self._log.places(len(self._log.messages)), 0.0)

    def stand_at(self, positions: Mapping[int, int]) -> None:
        self.positions = dict(positions)

    def take(self, records_max: int, wait_s: float) -> list[Message]:
        with self._log.more:
            if self.positions[0] >= len(self._log.messages):
                self._log.more.wait(wait_s)
            found = self._log.messages[self.positions[0] :][:records_max]
            self.positions = self._log.places(self.positions[0] + len(found))
            return found

    def close(self) -> None:
        pass


class Floors(Cache):
    """What the cache was told."""

    def __init__(self) -> None:
        super().__init__(None)
        self.told: dict[str, Stamp] = {}

    async def raise_floors(self, newer: Iterable[tuple[str, Stamp]]) -> None:
        self.told.update(newer)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = Log()
    monkeypatch.setattr(change_hub, "Tail", made.tail)
    return made


@asynccontextmanager
async def hub_of(cache: Cache | None = None) -> AsyncIterator[ChangeHub]:
    async with ChangeHub(KafkaSettings(), CONTRACT, cache or Cache(None)) as hub:
        yield hub


async def listen(hub: ChangeHub, since: Place | None = None) -> Listener:
    return await hub.listen(lambda event: wanted(event, CALLER, ANA), since)


def stream_of(hub: ChangeHub, listener: Listener) -> AsyncIterator[bytes]:
    async def allowed() -> bool:
        return True

    clock = FakeClock()
    sight = Sight(Names(FakePeople(set()), FakeAliases()), clock)
    return events(hub, listener, sight, CALLER, allowed, clock)


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not happened():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(("key", "value"), [(WHOLE_MODEL, None), (PROGRESS, UNREADABLE)], ids=["model", "poison"])
@pytest.mark.parametrize("way", ["ring", "log"])
def test_who_was_away_meanwhile_is_told_to_begin_anew(
    log: Log, monkeypatch: pytest.MonkeyPatch, way: str, key: str, value: bytes | None
) -> None:
    async def play() -> tuple[list[object], Mapping[int, int]]:
        log.append(PROGRESS)
        async with hub_of() as hub:
            listener = await listen(hub)
            place = hub.place()
            hub.leave(listener)
            for one, said in ((PROGRESS, None), (key, value), (PROGRESS, None)):
                log.append(one, said)
            if way == "ring":
                await until(lambda: hub.place().offsets[0] == 4)
                again = await listen(hub, place)
        if way == "log":
            monkeypatch.setattr(change_hub, "BACK", 0)
            async with hub_of() as hub:
                again = await listen(hub, place)
        return list(again.backlog), again.place

    told, stands = asyncio.run(play())
    assert [type(one) for one in told] == [Reset]
    assert stands[0] == 4


def test_who_was_away_while_nothing_of_the_kind_came_is_handed_what_did(log: Log) -> None:
    async def play() -> list[object]:
        async with hub_of() as hub:
            await listen(hub)
            place = hub.place()
            log.append(PROGRESS)
            log.append("progress:somebody:else")
            await until(lambda: hub.place().offsets[0] == 2)
            return list((await listen(hub, place)).backlog)

    assert [one.offset if isinstance(one, Change) else one for one in asyncio.run(play())] == [0]


def test_who_heard_it_does_not_hear_it_again(log: Log) -> None:
    async def play() -> list[object]:
        async with hub_of() as hub:
            listener = await listen(hub)
            stream = stream_of(hub, listener)
            await anext(stream)
            log.append(PROGRESS, UNREADABLE)
            assert b"event: reset" in await anext(stream)
            heard = Place(listener.topic_id, listener.place)
            log.append(PROGRESS)
            await until(lambda: hub.place().offsets[0] == 2)
            return list((await listen(hub, heard)).backlog)

    assert [type(one) for one in asyncio.run(play())] == [Change]


def test_who_was_not_told_yet_is_told_when_it_comes_again(log: Log) -> None:
    """A client keeps the last id there was: the one before the event it is about to get must not lie behind that."""

    async def play() -> list[bytes]:
        async with hub_of() as hub:
            listener = await listen(hub, Place("another", log.places(0)))
            stream = stream_of(hub, listener)
            return [await anext(stream), await anext(stream)]

    first, then = asyncio.run(play())
    assert b"id: " not in first
    assert b"id: topic:" in then
    assert b"event: reset" in then


def test_the_cache_knows_before_anybody_hears_even_of_what_no_version_tells(log: Log) -> None:
    cache = Floors()

    async def play() -> None:
        async with hub_of(cache) as hub:
            listener = await listen(hub)
            log.append(PROGRESS, invalidation(PROGRESS, 7, MERGED))
            await listener.queue.get()
            assert cache.told[PROGRESS] == Stamp(1, 1, 8)
            hub.leave(listener)
            log.append(PROGRESS, UNREADABLE)
            await until(lambda: hub.place().offsets[0] == 2)
            assert cache.told[PROGRESS] == NEVER

    asyncio.run(play())
